//! Any bytes as the value of a sender field: never a panic, every address is complete, names never
//! count beside a mailbox, and no text removes a mailbox before it.
//!
//! `cargo fuzz run --sanitizer none header`
#![no_main]

use std::collections::BTreeSet;

use blocklist_filter::address::{Canonical, Rules};
use blocklist_milter::sender::{Identity, Senders};
use libfuzzer_sys::fuzz_target;

/// Returns the senders of a value in canonical form.
fn of(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut senders = Senders::new();
    senders.add_header(Identity::From, value);
    let mut found = BTreeSet::new();
    for sender in senders.iter() {
        let at = sender.address.iter().rposition(|&byte| byte == b'@');
        assert!(at.is_some_and(|at| at > 0 && at + 1 < sender.address.len()));
        if let Ok(canonical) = Canonical::parse(sender.address, Rules::default()) {
            found.insert(canonical.as_bytes().to_vec());
        }
    }
    found
}

fuzz_target!(|value: &[u8]| {
    let found = of(value);
    let encoded = value.windows(2).any(|pair| pair == b"=?");
    if value.is_ascii() && !encoded {
        assert_eq!(
            of(&value.to_ascii_uppercase()),
            found,
            "case changes nothing"
        );
    }

    let mailbox = b"spam@bad.example".to_vec();
    let before = of(&[b"Name <spam@bad.example>, ", value].concat());
    assert!(
        before.contains(&mailbox),
        "what stands behind takes nothing back"
    );

    let text: Vec<u8> = value
        .iter()
        .copied()
        .filter(|byte| !b"\"\\".contains(byte))
        .collect();
    let quoted = of(&[b"\"v@w.example ", &text[..], b"\" <spam@bad.example>"].concat());
    assert_eq!(quoted, BTreeSet::from([mailbox.clone()]), "a quoted name");
    let text: Vec<u8> = text
        .into_iter()
        .filter(|byte| !b"()".contains(byte))
        .collect();
    let comment = of(&[b"spam@bad.example (v@w.example ", &text[..], b")"].concat());
    assert_eq!(comment, BTreeSet::from([mailbox]), "a comment");
});
