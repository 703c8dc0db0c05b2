//! The public items of `blocklist-filter` are those in `crates/filter/public-items.txt`, so that none is added, changed or removed
//! by accident. `UPDATE_PUBLIC_ITEMS=1 cargo test --test pure public_items::` writes the file.
//!
//! Reads the sources, as rustfmt lays them out: what can be reached from `lib.rs` without `#[doc(hidden)]`, with fields, variants,
//! methods, derives and traits.

use std::collections::BTreeSet;
use std::fs;

use super::layers::uses;
use crate::support::{below, root};

const SOURCES: &str = "crates/filter/src";
const STORED: &str = "crates/filter/public-items.txt";

/// An item of a block: its attributes, its text up to its body or its end, and its body.
struct Item {
    attributes: Vec<String>,
    head: String,
    body: String,
}

impl Item {
    fn is_public(&self) -> bool {
        self.head.starts_with("pub ") && !self.has("#[doc(hidden)]")
    }

    fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|one| one == attribute)
    }

    /// The third word, as in `pub struct Name`.
    fn name(&self) -> &str {
        let mut words = self.head.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.nth(2).unwrap_or_default()
    }
}

/// Divides a block into its items.
fn items(block: &str) -> Vec<Item> {
    let mut found = Vec::new();
    let mut attributes = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let is_attribute = line.starts_with('#');
        let (mut head, mut last) = (line.to_owned(), line);
        let is_end = |line: &str| match is_attribute {
            true => line.ends_with(']') && !line.starts_with(' '),
            false => {
                line.ends_with(['{', ';', '}']) || line.ends_with(',') && !line.starts_with(' ')
            }
        };
        while !is_end(last) {
            last = lines.next().expect("an item that ends");
            head = format!("{head} {}", last.trim());
        }
        if is_attribute {
            attributes.push(head);
            continue;
        }
        let body = match head.ends_with('{') {
            true => lines
                .by_ref()
                .take_while(|line| !line.starts_with('}'))
                .collect(),
            false => Vec::new(),
        };
        let body: Vec<&str> = body
            .iter()
            .map(|line| line.strip_prefix("    ").unwrap_or(line))
            .collect();
        let head = head.trim_end_matches([' ', '{', ';', ',']).to_owned();
        let attributes = std::mem::take(&mut attributes);
        let body = body.join("\n");
        match head.as_str() {
            _ if attributes.iter().any(|one| one == "#[cfg(test)]") => {}
            "named!" => found.extend(items(&body)),
            _ => found.push(Item {
                attributes,
                head,
                body,
            }),
        }
    }
    found
}

/// The sources: module, for example `filter::page`, and items.
type Sources = Vec<(String, Vec<Item>)>;

fn sources() -> Sources {
    let src = root(SOURCES);
    let files = below(&src)
        .into_iter()
        .filter(|file| file.is_file())
        .map(|file| {
            let name = file.strip_prefix(&src).unwrap().with_extension("");
            let name = name.to_str().unwrap().replace('/', "::");
            let module = name
                .strip_suffix("::mod")
                .unwrap_or(&name)
                .replace("lib", "");
            (module, items(&fs::read_to_string(&file).unwrap()))
        });
    files.collect()
}

fn joined(module: &str, name: &str) -> String {
    format!("{module}::{name}")
        .trim_start_matches("::")
        .to_owned()
}

/// Adds what is public in a module.
fn take_module(module: &str, sources: &Sources, found: &mut BTreeSet<String>) {
    let (_, items) = sources
        .iter()
        .find(|(name, _)| name == module)
        .expect(module);
    for item in items.iter().filter(|item| item.is_public()) {
        if item.head.starts_with("pub mod ") {
            take_module(&joined(module, item.name()), sources, found);
        } else if item.head.starts_with("pub use ") {
            for (path, _) in uses(&format!("{};", item.head)) {
                let (of, name) = path.rsplit_once("::").unwrap();
                found.insert(format!("{}: pub use {path}", joined(module, name)));
                take_item(&joined(module, of), name, sources, found);
            }
        } else {
            take_item(module, item.name(), sources, found);
        }
    }
}

/// Adds a public item, and what it has.
fn take_item(module: &str, name: &str, sources: &Sources, found: &mut BTreeSet<String>) {
    let (_, all) = sources.iter().find(|(of, _)| of == module).expect(module);
    let is_it = |item: &&Item| item.is_public() && item.name() == name;
    // A module that hands it on is public itself.
    let Some(item) = all.iter().find(is_it) else {
        return;
    };
    let path = joined(module, name);
    let mut put = |text: &str| found.insert(format!("{path}: {text}"));
    put([&item.attributes.join(" "), &*item.head]
        .join(" ")
        .trim_start());
    let is_enum = item.head.starts_with("pub enum ");
    if is_enum || item.head.starts_with("pub struct ") {
        for field in items_of(item).filter(|field| is_enum || field.is_public()) {
            let fields: Vec<String> = items_of(&field).map(|field| field.head).collect();
            put(&format!("{} {}", field.head, fields.join(", ")));
        }
    }
    let folder = |module: &str| module.split("::").next().unwrap().to_owned();
    for (_, items) in sources
        .iter()
        .filter(|(of, _)| folder(of) == folder(module))
    {
        for block in items.iter().filter(|item| item.head.starts_with("impl")) {
            let of = block
                .head
                .rsplit(" for ")
                .next()
                .unwrap()
                .trim_start_matches("impl<'a> ")
                .trim_start_matches("impl ");
            if of.split('<').next() != Some(name) {
                continue;
            }
            if block.head.contains(" for ") {
                put(&block.head);
            }
            for own in items_of(block).filter(Item::is_public) {
                put(&own.head);
            }
        }
    }
}

fn items_of(item: &Item) -> impl Iterator<Item = Item> {
    items(&item.body).into_iter()
}

#[test]
fn they_are_those_that_are_stored() {
    let mut found = BTreeSet::new();
    take_module("", &sources(), &mut found);
    let found: String = found
        .iter()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    let stored = root(STORED);
    if std::env::var_os("UPDATE_PUBLIC_ITEMS").is_some() {
        fs::write(&stored, &found).unwrap();
    }
    let before = fs::read_to_string(&stored).unwrap_or_default();
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let (new, gone) = (lines(&found), lines(&before));
    let new_ones: Vec<_> = new.difference(&gone).collect();
    let gone: Vec<_> = gone.difference(&new).collect();
    assert!(
        found == before,
        "the crate has other public items; if that is meant: UPDATE_PUBLIC_ITEMS=1\nnew: {new_ones:#?}\ngone: {gone:#?}"
    );
}
