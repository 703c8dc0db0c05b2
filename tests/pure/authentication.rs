//! Which domains the mail server's own `Authentication-Results` confirm.

use blocklist_milter::policy::Authentication;

use crate::support::rows;

fn read(field: &str) -> Authentication {
    Authentication::read(field.as_bytes(), &["mx.our.example".to_owned()])
}

#[test]
fn only_what_our_own_server_reports_counts() {
    for [field, signers, dmarc] in rows(include_str!("authentication.txt")) {
        let found = read(field);
        let shown = |domains: &[Vec<u8>]| String::from_utf8(domains.join(&b' ')).unwrap();
        assert_eq!(shown(&found.signers), signers, "{field}");
        let passed = shown(&found.passed);
        let said = if found.has_failed { "failed" } else { &passed };
        assert_eq!(said, dmarc, "{field}");
    }
}

#[test]
fn a_signer_is_no_longer_than_a_domain() {
    let domain = "a".repeat(100_000);
    let found = read(&format!(
        "mx.our.example; dkim=pass header.d={domain}.example"
    ));
    assert_eq!(found, Authentication::default());
}
