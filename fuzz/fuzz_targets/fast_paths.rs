//! A fast path gives the same result as the slow path.
//!
//! The first byte chooses the path and the address rules; the rest is the input:
//!
//! | first byte | fast path | slow path |
//! |---|---|---|
//! | below 64 | the lines of a list, 64 bytes at a time | each line by itself |
//! | below 128 | the check of an entry of a list | reading it in full |
//! | from 128 on | a sender field in one of its ordinary forms | the same before a second mailbox, which is not ordinary |
//!
//! `address` compares reading an address with and without the shortcut for plain ones;
//! `filter_file` compares the answers of a filter in memory and on disk.
//! `cargo fuzz run --sanitizer none fast_paths`
#![no_main]

use std::collections::BTreeSet;

use blocklist_compile::compile::Block;
use blocklist_compile::list;
use blocklist_filter::address::plain::PlainEntry;
use blocklist_filter::address::{Canonical, Entry, Rules};
use blocklist_milter::sender::{Identity, Senders};
use libfuzzer_sys::fuzz_target;

/// Each line is there, and one that is reported as plain is that entry.
fn lines(text: &[u8], rules: Rules) {
    let mut expected: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    if expected.last().is_some_and(|line| line.is_empty()) {
        expected.pop();
    }
    let mut seen = 0;
    let mut block = Block::new();
    // Leftovers of an earlier, longer block do no harm.
    block.lines(&[b'@'; 500], rules, |_| {});
    block.lines(text, rules, |line| {
        let whole = expected[seen];
        assert_eq!(line.written, whole.strip_suffix(b"\r").unwrap_or(whole));
        if let Some(plain) = line.entry {
            let entry = Entry::parse(&line.written[line.before..], rules)
                .expect("a plain line is an entry");
            assert_eq!((entry.kind(), entry.as_bytes()), plain);
        }
        seen += 1;
    });
    assert_eq!(seen, expected.len(), "lines");
}

/// What is plainly an entry is that entry for every reader.
fn entry(text: &[u8], rules: Rules) {
    let mut canonical = Vec::new();
    let Some(plain) = PlainEntry::of(text) else {
        return;
    };
    // A blank before it prevents the check.
    let blank = [b" ", text].concat();
    let read = list::read_entry(&blank).expect("a list may have it");
    assert_eq!(read, text);
    if plain.write(rules, &mut canonical) {
        let entry = Entry::parse(text, rules).expect("an entry");
        assert_eq!(
            (entry.kind(), entry.as_bytes()),
            (plain.kind(), &*canonical)
        );
    }
}

/// Returns the canonical form of an address; `None` for text that no list can name.
fn canonical(address: &[u8]) -> Option<Vec<u8>> {
    let form = Canonical::parse(address, Rules::default()).ok()?;
    Some(form.as_bytes().to_vec())
}

/// Returns the senders of a value in canonical form.
fn of(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut senders = Senders::new();
    senders.add_header(Identity::From, value);
    let found = senders.iter();
    found
        .filter_map(|sender| canonical(sender.address))
        .collect()
}

/// Returns whether these bytes are one address without quotes, comments and literals.
fn is_plain(address: &[u8]) -> bool {
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    let is_local = |byte: &u8| is_domain(byte) || b"!#$%&'*+/=^_`{|}~".contains(byte);
    let mut parts = address.split(|&byte| byte == b'@');
    let (Some(local), Some(domain), None) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let has_label = domain.iter().any(u8::is_ascii_alphanumeric);
    has_label
        && !local.is_empty()
        && !domain.ends_with(b"..")
        && local.iter().all(is_local)
        && domain.iter().all(is_domain)
}

/// Removes the blanks and folds of RFC 5322 around a text; a form feed is not white space there.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..]
    | [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = text
    {
        text = rest;
    }
    text
}

/// Returns the address of `a@b`, `Name <a@b>` or `"Name" <a@b>`.
fn ordinary(value: &[u8]) -> Option<&[u8]> {
    let value = trim(value);
    let Some(rest) = value.strip_suffix(b">") else {
        return Some(value).filter(|value| is_plain(value));
    };
    let open = rest.iter().rposition(|&byte| byte == b'<')?;
    let (name, address) = (trim(&rest[..open]), &rest[open + 1..]);
    let is_name = match name {
        [b'"', inner @ .., b'"'] => !inner.iter().any(|byte| b"\"\\".contains(byte)),
        name => !name.iter().any(|byte| b"\"\\(),:;<>@[]".contains(byte)),
    };
    (is_name && is_plain(address)).then_some(address)
}

/// An ordinary field gives its address, and no other, on both paths.
fn field(value: &[u8]) {
    let Some(address) = ordinary(value) else {
        return;
    };
    let one: BTreeSet<_> = canonical(address).into_iter().collect();
    assert_eq!(of(value), one, "the fast path");
    let second = b"z@z.example".to_vec();
    let mut both = of(&[value, b", ", &second].concat());
    both.retain(|found| *found != second);
    let mut expected = one;
    expected.remove(&second);
    assert_eq!(both, expected, "the slow path");
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, input)) = input.split_first() else {
        return;
    };
    let rules = Rules::from_bits(first & 15).expect("four bits");
    if first < 64 {
        lines(input, rules);
    } else if first < 128 {
        entry(input, rules);
    } else {
        field(input);
    }
});
