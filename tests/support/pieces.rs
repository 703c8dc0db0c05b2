//! A list split into pieces, and their parts.

use std::fs;
use std::path::Path;

use blocklist_compile::compile::Plan;

use super::compile::{addresses, build, plan};

/// Splits a text into pieces, between lines.
pub(crate) fn cut(text: &str, pieces: usize) -> Vec<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let each = lines.len().div_ceil(pieces);
    (0..pieces)
        .map(|piece| {
            let lines = lines.iter().skip(piece * each).take(each);
            lines.copied().collect()
        })
        .collect()
}

/// Returns the plan for a part of `list.txt` with the content of `piece`.
pub(crate) fn part_plan(dir: &Path, piece: &str, source: &str) -> Plan {
    let mut plan = plan(dir, &format!("{piece}.part"), &[piece]);
    plan.part = Some(piece.to_owned());
    plan.source = Some(source.to_owned());
    plan
}

pub(crate) fn write_pieces(dir: &Path, pieces: &[String]) -> Vec<String> {
    let write = |(number, piece): (usize, &String)| {
        let name = format!("piece.{number:04}");
        fs::write(dir.join(&name), piece).unwrap();
        name
    };
    pieces.iter().enumerate().map(write).collect()
}

/// Builds the parts of a text split into pieces. Returns their names.
pub(crate) fn parts(dir: &Path, text: &str, pieces: usize) -> Vec<String> {
    let names = write_pieces(dir, &cut(text, pieces));
    let part = |name: String| {
        build(&part_plan(dir, &name, "list.txt")).part.unwrap();
        format!("{name}.part")
    };
    names.into_iter().map(part).collect()
}

pub(crate) fn whole(dir: &Path, text: &str) -> Vec<u8> {
    let lists = dir.join("whole");
    fs::create_dir_all(&lists).unwrap();
    fs::write(lists.join("list.txt"), text).unwrap();
    let mut plan = plan(&lists, "one.blf", &["list.txt"]);
    // The name that a user gives beside the file; the folder of this test has another name each
    // time.
    plan.source = Some("list.txt".to_owned());
    build(&plan);
    fs::read(plan.output).unwrap()
}

/// Returns a list with comments, a licence, duplicates, rejected lines, and every kind of entry.
pub(crate) fn text() -> String {
    let head = "# A list\n# Licence: CC0-1.0\n\n";
    let odd = "no@address here\nspammer@\n.tree.example\nuser5@host.example\n";
    format!(
        "{head}{}{odd}{}{odd}",
        addresses(0..6_000),
        addresses(2_000..9_000)
    )
}
