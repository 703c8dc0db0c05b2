//! The examples do with a real filter what their heads say.
#![allow(unreachable_pub, reason = "the examples are programs of their own")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};

use blocklist_filter::{Error, Filter, Load, Lookup};

#[path = "../examples/batch.rs"]
#[allow(dead_code, reason = "its main")]
mod batch;
#[path = "../examples/policy.rs"]
#[allow(dead_code, reason = "its main")]
mod policy;

fn stored(name: &str) -> PathBuf {
    let filters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filters");
    filters.join(name)
}

fn answers(list: &Lookup, requests: &str) -> String {
    let mut out = Vec::new();
    policy::serve(list, requests.as_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_policy_service_rejects_listed_senders() {
    let list = Lookup::open(&stored("records.blf"), Load::Disk).unwrap();
    let asked = "request=smtpd_access_policy\nsender=Spammer@BAD.example\nsize=1\n\n\
                 request=smtpd_access_policy\nsender=friend@bad.example\n\n\
                 sender=a@sub.worst.example\n\nsender=odd local@bad.example\n\nsender=\n\nrequest=smtpd_access_policy\n\nsender=cut@worse.example";
    assert_eq!(
        answers(&list, asked),
        "action=REJECT spammer@bad.example is on our blocklist\n\naction=DUNNO\n\n\
         action=REJECT .worst.example is on our blocklist\n\n\
         action=REJECT \"odd local\"@bad.example is on our blocklist\n\naction=DUNNO\n\naction=DUNNO\n\n"
    );
}

/// A filter that is damaged while it is in use defers mail.
#[test]
fn the_policy_service_defers_what_it_cannot_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.blf");
    std::fs::copy(stored("records.blf"), &path).unwrap();
    let list = Lookup::open(&path, Load::Disk).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(4096))
        .unwrap();
    let asked = "sender=spammer@bad.example\n\n";
    let said = "action=DEFER_IF_PERMIT our blocklist cannot be read\n\n";
    assert_eq!(answers(&list, asked), said);
    assert!(matches!(
        Lookup::open(&path, Load::Disk),
        Err(Error::Filter(_))
    ));
    assert!(Filter::verify(&path).is_err());
}

#[test]
fn the_batch_prints_who_is_listed_by_what() {
    let check = |name: &str, addresses: &str| {
        let list = Lookup::open(&stored(name), Load::Memory).unwrap();
        let mut out = Vec::new();
        let is_any = batch::check(&list, addresses.as_bytes(), &mut out).unwrap();
        (is_any, String::from_utf8(out).unwrap())
    };
    let addresses = "friend@bad.example\nLottery@other.example\nold@bad.example\nx\n\n\"odd local\"@bad.example";
    let listed = "Lottery@other.example\tlottery@\tlist\t2026-01-31\t-\n\
                  \"odd local\"@bad.example\t\"odd local\"@bad.example\tlist\t2026-01-31\t-\n";
    assert_eq!(check("records.blf", addresses), (true, listed.to_owned()));
    let (is_any, unproved) = check("no-records.blf", "u@worse.example");
    assert_eq!(
        (is_any, &*unproved),
        (true, "u@worse.example\t@worse.example\t-\t-\t-\n")
    );
    assert_eq!(
        check("records.blf", "u@good.example"),
        (false, String::new())
    );
}

/// Whatever bytes are asked for, and whatever stands in the file, there is an answer or an error.
#[test]
fn nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.blf");
    let sound = std::fs::read(stored("records.blf")).unwrap();
    let list = Lookup::open(&stored("records.blf"), Load::Memory).unwrap();
    for byte in 0..=255_u8 {
        for text in [
            &[byte][..],
            &[b'a', byte, b'@', byte],
            &[byte, b'@', b'[', byte, b'.'],
        ] {
            list.find(text).unwrap();
        }
    }
    for at in (0..sound.len()).step_by(31) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        assert!(Filter::verify(&path).is_err(), "byte {at}");
        for load in [Load::Memory, Load::Disk] {
            let found = Lookup::open(&path, load)
                .map(|list| list.find(b"spammer@bad.example").map(|found| found.len()));
            assert!(matches!(found, Err(_) | Ok(Err(_) | Ok(1))), "byte {at}");
        }
        std::fs::write(&path, &sound[..at]).unwrap();
        assert!(Lookup::open(&path, Load::Disk).is_err(), "{at} bytes");
    }
}
