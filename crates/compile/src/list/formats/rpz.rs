//! Response policy zones: DNS zone files with the names that a resolver refuses.
//!
//! ```text
//!   $ORIGIN rpz.example.
//!   @                        SOA localhost. root.localhost. ( 1 1h 15m 30d 2h )
//!   bad.example              CNAME .               no such domain: listed
//!   *.bad.example            CNAME *.              no data: its subdomains are listed
//!   bad2.example             CNAME rpz-drop.       no answer: listed
//!   good.example             CNAME rpz-passthru.   allowance
//!   32.1.2.0.192.rpz-ip      CNAME .               about addresses, not about names
//! ```
//!
//! Names are relative to the zone, or absolute and below it. A record that leads
//! somewhere else (a walled garden, an address) changes an answer and refuses nothing.
//! RFC 1035 section 5 for the file, draft-vixie-dnsop-dns-rpz for the policy.

use super::{LineFormat, Out, includes};
use crate::list::row::{Refusal, RejectReason, Skip};
use crate::list::text::{blank_words, is_one_of};

#[derive(Debug, Default)]
pub(crate) struct Rpz {
    /// The zone's name with a dot at both ends (`.rpz.example.`), once known.
    zone: Vec<u8>,
    /// The last `$ORIGIN`, in the same form.
    origin: Vec<u8>,
    /// The last owner, which is also that of a line that starts with white space.
    owner: Vec<u8>,
    /// Number of open parentheses: the record continues on the next line.
    depth: usize,
}

/// Maximum length of a name in bytes (RFC 1035 section 2.3.4), with a dot at both ends. The
/// lines after a name use it again, so a longer one would multiply the list.
const MAX_NAME_BYTES: usize = 256;

const CLASSES: &str = "IN CH HS";

/// Types of records in such zones; a line with another word in their place is not a record.
const TYPES: &str = "A AAAA CAA CNAME DNAME DNSKEY DS HINFO HTTPS LOC MX NAPTR NS NSEC NSEC3 NSEC3PARAM PTR RP RRSIG SOA \
     SPF SRV SSHFP SVCB TLSA TXT ZONEMD";

impl LineFormat for Rpz {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let text = before_semicolon(line);
        if text.trim_ascii().is_empty() {
            return out.nothing();
        }
        let is_indented = text.first().is_some_and(u8::is_ascii_whitespace);
        if !is_indented && record_type(text).is_some_and(|kind| is(kind, b"CNAME")) {
            // An earlier parenthesis was never closed.
            self.depth = 0;
        }
        let inside = self.depth > 0;
        self.depth = depth_after(text, self.depth);
        if inside {
            return out.skip(Skip::Continuation);
        }
        if text.first() == Some(&b'$') {
            return self.directive(text, out);
        }
        let mut words = blank_words(text);
        if !is_indented {
            let owner = words.next().unwrap_or_default();
            if record_type(text).is_none() {
                return out.reject(RejectReason::NotOfFormat, text);
            }
            self.owner.clear();
            if owner.len() > MAX_NAME_BYTES {
                return out.reject(RejectReason::NotADomain, owner);
            }
            self.owner.extend(owner.to_ascii_lowercase());
        }
        let kind = words.by_ref().find(|word| !is_class_or_time(word));
        let kind = kind.unwrap_or_default().to_ascii_uppercase();
        match kind.as_slice() {
            b"SOA" => {
                self.zone = match self.owner.as_slice() {
                    b"@" => self.origin.clone(),
                    owner => self.absolute(owner),
                };
                out.other(&kind);
            }
            b"CNAME" => self.rule(words.next().unwrap_or_default(), out),
            kind if is_one_of(kind, TYPES) => out.other(kind),
            // An indented line that is not a record.
            _ => out.reject(RejectReason::NotOfFormat, text),
        }
    }
}

impl Rpz {
    fn directive(&mut self, text: &[u8], out: &mut Out<'_>) {
        let mut words = blank_words(text);
        let first = words.next().unwrap_or_default();
        if is(first, b"$ORIGIN") {
            let name = words.next().unwrap_or_default();
            let origin = self.absolute(name);
            // An origin relative to the last one grows line by line.
            if origin.len() > MAX_NAME_BYTES {
                return out.reject(RejectReason::NotADomain, name);
            }
            self.origin = origin;
            // Until a SOA record says otherwise: a zone begins at its first origin.
            if self.zone.is_empty() {
                self.zone.clone_from(&self.origin);
            }
        }
        if includes(text) {
            out.refuse(Refusal::Include);
        } else if is(first, b"$GENERATE") {
            out.reject(RejectReason::Generate, text);
        } else {
            out.other(first);
        }
    }

    /// Returns a name of the file as `.name.`, as far as the origin is known.
    fn absolute(&self, name: &[u8]) -> Vec<u8> {
        let mut absolute = vec![b'.'];
        absolute.extend(name.to_ascii_lowercase());
        if !name.ends_with(b".") {
            absolute.extend_from_slice(match self.origin.as_slice() {
                b"" => b".",
                origin => origin,
            });
        }
        absolute
    }

    fn rule(&self, target: &[u8], out: &mut Out<'_>) {
        match target.to_ascii_lowercase().as_slice() {
            b"." | b"*." | b"rpz-drop." => {}
            b"rpz-passthru." => return out.skip(Skip::Allow),
            // An older way to write the same.
            target if self.absolute(target) == self.absolute(&self.owner) => {
                return out.skip(Skip::Allow);
            }
            _ => return out.other(b"CNAME to another name"),
        }
        let owner = self.absolute(&self.owner);
        let is_absolute = self.owner.ends_with(b".");
        let name = match owner.strip_suffix(self.zone.as_slice()) {
            Some(name) if !self.zone.is_empty() && self.zone != b"." => name,
            // Without a zone's name, a relative owner is the whole name.
            _ if !is_absolute => owner.strip_suffix(b".").unwrap_or(&owner),
            _ => return out.reject(RejectReason::ZoneUnknown, &self.owner),
        };
        let name = name.strip_prefix(b".").unwrap_or(name);
        let label = name.rsplit(|&b| b == b'.').next().unwrap_or_default();
        if is_one_of(label, "rpz-ip rpz-client-ip rpz-nsip rpz-nsdname") {
            out.skip(Skip::NotSender);
        } else {
            out.domain(name);
        }
    }
}

/// Returns whether a line has the mark of a zone: its origin, or one of its main records.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    let text = before_semicolon(line);
    text.starts_with(b"$ORIGIN ")
        || kind_of_record(text).is_some_and(|kind| is_one_of(kind, "CNAME SOA"))
}

fn record_type(text: &[u8]) -> Option<&[u8]> {
    kind_of_record(text).filter(|kind| is_one_of(kind, TYPES))
}

/// Returns what would be the type, if the line holds a record.
fn kind_of_record(text: &[u8]) -> Option<&[u8]> {
    let mut words = blank_words(text).skip(1);
    words.find(|word| !is_class_or_time(word))
}

fn is_class_or_time(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_digit) || is_one_of(word, CLASSES)
}

fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// Returns the number of parentheses open after a line; those in quotes do not count.
fn depth_after(text: &[u8], mut depth: usize) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if std::mem::take(&mut escaped) => {}
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'(' if !quoted => depth += 1,
            b')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

/// Returns the text of a line of a zone before its comment.
pub(crate) fn before_semicolon(line: &[u8]) -> &[u8] {
    let mut quoted = false;
    let end = line.iter().position(|&b| {
        quoted ^= b == b'"';
        b == b';' && !quoted
    });
    line.get(..end.unwrap_or(line.len())).unwrap_or(line)
}
