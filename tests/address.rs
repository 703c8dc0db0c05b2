//! The canonical form of addresses, by a table of cases and by properties.
#![allow(missing_docs)]

use blocklist_milter::address::{Canonical, Entry, Rules};

fn canonical(written: &[u8]) -> String {
    match Canonical::parse(written, Rules::default()) {
        Ok(form) => String::from_utf8_lossy(form.as_bytes()).into_owned(),
        Err(e) => format!("! {e}"),
    }
}

#[test]
fn first_cases() {
    for (written, expected) in [
        (
            "\"J. D\" <@r,@s:\"J\\.Doe\"(work) @ Exämple.COM.> x",
            "j.doe@xn--exmple-cua.com",
        ),
        ("spam.mer+x@googlemail.com", "spammer@gmail.com"),
        ("prvs=3815f2ba8f=a@b.example", "a@b.example"),
        ("\"a b\"@x.example", "\"a b\"@x.example"),
        ("mailto:A@[IPv6:2001:DB8:0::1]", "a@[ipv6:2001:db8::1]"),
        ("x@user.fastmail.com", "user@fastmail.com"),
    ] {
        assert_eq!(canonical(written.as_bytes()), expected, "{written}");
    }
    assert!(Entry::parse(b"*@*", Rules::default()).is_err());
}
