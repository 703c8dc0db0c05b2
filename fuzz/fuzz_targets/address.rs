//! Any bytes as one address: never a panic, and the properties of the canonical form.
//!
//! The first byte chooses the rules, the rest is the written address.
//! `cargo fuzz run --sanitizer none address`
#![no_main]

use std::ops::ControlFlow;

use blocklist_filter::address::{Canonical, Entry, Kind, Kinds, Rules, escaped};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&bits, written)) = input.split_first() else {
        return;
    };
    let Some(rules) = Rules::from_bits(bits & 15) else {
        return;
    };
    let shown = escaped(written).to_string();
    assert!(!shown.contains(|c: char| c.is_control()));

    let form = Canonical::parse(written, rules);
    if let Ok(form) = &form {
        let text = form.as_bytes();
        let again = Canonical::parse(text, rules).expect("what was written once can be read");
        assert_eq!(again.as_bytes(), text, "canonical of canonical is itself");

        // In brackets the shortcut is not used.
        let full = Canonical::parse(&[b"<", written, b">"].concat(), rules);
        if !written.contains(&b'<') && !written.contains(&b'>') {
            let full = full.as_ref().map(Canonical::as_bytes);
            let unclosed = written.iter().any(|byte| b"(\\".contains(byte));
            assert!(unclosed || full == Ok(text), "brackets change nothing");
        }
        let upper = Canonical::parse(&written.to_ascii_uppercase(), rules);
        assert_eq!(upper.expect("case changes nothing").as_bytes(), text);
    }
    let Ok(entry) = Entry::parse(written, rules) else {
        return;
    };
    let again = Entry::parse(entry.as_bytes(), rules).expect("an entry is an entry");
    assert_eq!(
        (again.kind(), again.as_bytes()),
        (entry.kind(), entry.as_bytes())
    );
    if let (Ok(form), Kind::Mailbox) = (&form, entry.kind()) {
        let found = form.lookups(Kinds::ALL, |kind, text| {
            if (kind, text) == (entry.kind(), entry.as_bytes()) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(found.is_break(), "a listed sender is found");
    }
});
