//! The completions for bash, in a real bash.

use std::fs;
use std::process::Command;

use crate::support::root;

/// Returns what bash offers for the last of these words.
fn completed(program: &str, words: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("spam.blf"), "").unwrap();
    fs::write(folder.path().join("spam.txt"), "").unwrap();
    let script = root("contrib/completions").join(format!("{program}.bash"));
    let words: Vec<&str> = words.split(' ').collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let function = program.replace('-', "__");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _{function} {program} '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words.len() - 1
    );
    let said = Command::new("bash")
        .args(["--norc", "-c", &text])
        .current_dir(folder.path())
        .output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    said.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_filters() {
    for (program, words, offered) in [
        (
            "blocklist-compile",
            "blocklist-compile ver",
            &["verify"][..],
        ),
        (
            "blocklist-compile",
            "blocklist-compile build --max-g",
            &["--max-growth"],
        ),
        (
            "blocklist-compile",
            "blocklist-compile false-positives --j",
            &["--json"],
        ),
        (
            "blocklist-compile",
            "blocklist-compile info --j",
            &["--json"],
        ),
        (
            "blocklist-compile",
            "blocklist-compile info sp",
            &["spam.blf"],
        ),
        (
            "blocklist-compile",
            "blocklist-compile query sp",
            &["spam.blf"],
        ),
        (
            "blocklist-compile",
            "blocklist-compile verify sp",
            &["spam.blf"],
        ),
        (
            "blocklist-milter",
            "blocklist-milter log --fol",
            &["--follow"],
        ),
        (
            "blocklist-milter",
            "blocklist-milter setup-check --post",
            &["--postfix"],
        ),
        ("blocklist-fetch", "blocklist-fetch --he", &["--help"]),
    ] {
        assert_eq!(completed(program, words), offered, "{words}");
    }
}
