//! The lists in `blocklists/`: each states its origin and licence, and every line is valid.

use std::fs;
use std::path::{Path, PathBuf};

use blocklist_compile::compile::guard::Guard;
use blocklist_compile::compile::inputs;
use blocklist_compile::list::{Declared, Reader, Row, reading};
use blocklist_filter::address::{Entry, Rules};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("blocklists")
}

/// Returns every text file in the folder.
fn texts() -> Vec<PathBuf> {
    let mut texts: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder blocklists/")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    texts.sort();
    assert!(texts.len() >= 3);
    texts
}

#[test]
fn each_text_names_its_origin_version_date_and_licence() {
    for path in texts() {
        let text = fs::read_to_string(&path).unwrap();
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        for fact in ["Origin:", "Version:", "Date:", "Licence:"] {
            assert!(
                head.iter().any(|line| {
                    line.trim_start_matches(['#', ' '])
                        .strip_prefix(fact)
                        .is_some_and(|rest| !rest.trim().is_empty())
                }),
                "{} does not say its {fact}",
                path.display()
            );
        }
    }
}

#[test]
fn no_line_of_them_is_rejected() {
    let guard = Guard::default();
    for path in texts() {
        let text = fs::read(&path).unwrap();
        let reading = reading(&text, true, &Declared::default()).unwrap();
        let mut entries = 0;
        Reader::new(&reading).read(&text, true, &mut |line, row| match row {
            Row::Entry(raw) => {
                entries += 1;
                let shown = raw.text.escape_ascii();
                let place = format!("{}:{line}: {shown}", path.display());
                match Entry::parse(raw.text, Rules::default()) {
                    Ok(entry) => {
                        let danger = guard.check(entry.kind(), entry.as_bytes());
                        assert_eq!(danger, Ok(()), "{place}");
                    }
                    Err(error) => panic!("{place}: {error}"),
                }
            }
            Row::Skipped { .. } => {}
            Row::Refused { refusal, .. } => panic!("{}:{line}: {refusal}", path.display()),
            Row::Rejected { reason, text } => panic!(
                "{}:{line}: {}: {reason}",
                path.display(),
                text.escape_ascii()
            ),
        });
        assert!(entries > 0, "{} lists nobody", path.display());
    }
}

#[test]
fn the_folder_stands_for_its_blocklists_alone() {
    let names: Vec<_> = inputs(&[folder()])
        .unwrap()
        .into_iter()
        .filter_map(|input| input.path.file_name().map(ToOwned::to_owned))
        .collect();
    assert_eq!(names, ["disposable-domains.txt", "example-senders.txt"]);
}
