//! Any bytes as the argument of MAIL FROM: never a panic, every address is complete, and a path
//! that is an address is found as that address.
//!
//! `cargo fuzz run --sanitizer none mail_argument`
#![no_main]

use blocklist_filter::address::{Canonical, Rules};
use blocklist_milter::sender::{Identity, Senders, Strength};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|argument: &[u8]| {
    let mut senders = Senders::new();
    senders.add_mail_from(argument);
    // The address as the server understood it may be anything, too.
    senders.add_mail_addr(argument);
    for sender in senders.iter() {
        assert_eq!(sender.identity, Identity::MailFrom);
        assert_eq!(sender.strength, Strength::Strong);
        let at = sender.address.iter().rposition(|&byte| byte == b'@');
        assert!(at.is_some_and(|at| at > 0 && at + 1 < sender.address.len()));
    }

    // What the server reads as one address is looked up as that address.
    if argument
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || b"<>\"\\\0()".contains(byte))
    {
        return;
    }
    let Ok(expected) = Canonical::parse(argument, Rules::default()) else {
        return;
    };
    senders.clear();
    senders.add_mail_from(&[b"<", argument, b"> SIZE=1000"].concat());
    let found = senders.iter().any(|sender| {
        Canonical::parse(sender.address, Rules::default())
            .is_ok_and(|canonical| canonical.as_bytes() == expected.as_bytes())
    });
    assert!(found, "the path itself is found");
});
