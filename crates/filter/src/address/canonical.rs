//! The canonical form of an address, and the entries of a list that name it.

use std::ops::ControlFlow;

use super::domain::{self, MAX_DOMAIN_BYTES};
use super::error::ParseError;
use super::kind::{Kind, Kinds};
use super::rules::Rules;
use super::unicode::{Fold, fold};
use super::{bounce, parse, plain, providers};
use crate::rfc5322::{is_atext, quote};

/// The canonical form of an address. It keeps its memory, so reading another plain ASCII address
/// into it allocates nothing.
///
/// ```
/// use blocklist_filter::address::{Canonical, Rules};
/// let written = r#"J. Doe <"J.Doe"@BÜCHER.example.>"#;
/// let address = Canonical::parse(written.as_bytes(), Rules::default())?;
/// assert_eq!(address.as_bytes(), b"j.doe@xn--bcher-kva.example");
/// # Ok::<(), blocklist_filter::address::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Canonical {
    outer: Form,
    /// The sender inside an SRS address.
    inner: Form,
    has_inner: bool,
    work: Work,
}

/// An address as spelled (after all rules except the provider's), and as compared.
#[derive(Clone, Debug, Default)]
struct Form {
    canonical: Text,
    spelled: Text,
    /// Whether the two differ; if not, `spelled` is not filled.
    differs: bool,
}

/// `local@domain`, and the position of the `@`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text {
    bytes: Vec<u8>,
    at: usize,
}

#[derive(Clone, Debug, Default)]
struct Work {
    read: Vec<u8>,
    local: Vec<u8>,
    domain: Vec<u8>,
    mailbox: Vec<u8>,
}

/// Working memory beyond this many bytes is freed.
const KEPT_BYTES: usize = 4096;

impl Work {
    fn shrink(&mut self) {
        for memory in [
            &mut self.read,
            &mut self.local,
            &mut self.domain,
            &mut self.mailbox,
        ] {
            memory.clear();
            memory.shrink_to(KEPT_BYTES);
        }
    }
}

impl Canonical {
    /// Creates an empty form.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one address, in any notation: with a display name, comments, quotes, a source route. After an error the content of
    /// `self` must not be used.
    ///
    /// # Errors
    /// [`ParseError::Empty`], [`NoDomain`](ParseError::NoDomain), [`NoLocalPart`](ParseError::NoLocalPart): nobody can be
    /// listed under such a text. [`TooLong`](ParseError::TooLong): beyond
    /// [`MAX_WRITTEN_BYTES`](super::MAX_WRITTEN_BYTES).
    pub fn read(&mut self, written: &[u8], rules: Rules) -> Result<(), ParseError> {
        self.has_inner = false;
        if !self.read_plain(written, rules) {
            self.outer.read(written, rules, &mut self.work)?;
            self.work.shrink();
        }
        if rules.srs
            && let Some((local, domain)) = bounce::original(self.outer.spelled().local())
        {
            let mut inner = Vec::with_capacity(local.len() + domain.len() + 3);
            write_local(local, &mut inner);
            inner.push(b'@');
            inner.extend_from_slice(domain);
            let inner_rules = Rules {
                srs: false,
                ..rules
            };
            self.has_inner = self.inner.read(&inner, inner_rules, &mut self.work).is_ok();
        }
        Ok(())
    }

    /// Reads an address that needs no change but lower case, in a few nanoseconds. Returns false
    /// for any other; then the content must not be used.
    #[doc(hidden)]
    pub fn read_plain(&mut self, written: &[u8], rules: Rules) -> bool {
        self.outer.read_plain(written, rules, &mut self.work)
    }

    /// Reads one address into a new form.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(written: &[u8], rules: Rules) -> Result<Self, ParseError> {
        let mut form = Self::new();
        form.read(written, rules)?;
        Ok(form)
    }

    /// Returns `local@domain`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.outer.canonical.bytes
    }

    /// Returns the part before the `@`, in quotes if it needs them.
    pub fn local(&self) -> &[u8] {
        self.outer.canonical.local()
    }

    /// Returns the part after the `@`.
    pub fn domain(&self) -> &[u8] {
        self.outer.canonical.domain()
    }

    /// Visits the text of every entry of the given kinds that lists this sender, each once, and
    /// stops at the first `Break`: for `x@mail.b.example` these are `x@mail.b.example`, `x@`, `@mail.b.example`,
    /// `.b.example` and `.example`. Where a provider's rule changes the mailbox, the domain and local part as spelled follow.
    pub fn lookups<B>(
        &self,
        kinds: Kinds,
        mut visit: impl FnMut(Kind, &[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let forms = [Some(&self.outer), self.has_inner.then_some(&self.inner)];
        let texts = forms.iter().flatten().flat_map(|form| form.texts());
        for (number, (text, is_mailbox)) in texts.clone().enumerate() {
            let is_new = |kind, entry: &[u8]| {
                !texts
                    .clone()
                    .take(number)
                    .any(|(earlier, is_mailbox)| earlier.has(kind, entry, is_mailbox))
            };
            if is_mailbox && kinds.contains(Kind::Mailbox) && is_new(Kind::Mailbox, &text.bytes) {
                visit(Kind::Mailbox, &text.bytes)?;
            }
            let local = &text.bytes[..=text.at];
            if kinds.contains(Kind::LocalPart) && is_new(Kind::LocalPart, local) {
                visit(Kind::LocalPart, local)?;
            }
            let domain = &text.bytes[text.at..];
            if kinds.contains(Kind::Domain) && is_new(Kind::Domain, domain) {
                visit(Kind::Domain, domain)?;
            }
            if kinds.contains(Kind::Subtree) {
                for parent in text.parents() {
                    if is_new(Kind::Subtree, parent) {
                        visit(Kind::Subtree, parent)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Form {
    fn read(&mut self, written: &[u8], rules: Rules, work: &mut Work) -> Result<(), ParseError> {
        self.canonical.clear();
        let parts = parse::split(written)?;
        let raw_domain = parts.domain.ok_or(ParseError::NoDomain)?;
        if !read_local(parts.local, rules, work) {
            return Err(ParseError::NoLocalPart);
        }
        read_domain(raw_domain, work);
        if work.domain.is_empty() {
            return Err(ParseError::NoDomain);
        }
        self.canonical.write(&work.local, &work.domain);
        let Work { local, mailbox, .. } = work;
        self.deliver(Some(local), rules, mailbox);
        Ok(())
    }

    fn read_plain(&mut self, written: &[u8], rules: Rules, work: &mut Work) -> bool {
        if written.len() > plain::MAX_BYTES {
            return false;
        }
        let Some(at) = plain::lower_line(written, &mut self.canonical.bytes) else {
            return false;
        };
        self.canonical.at = at;
        self.deliver(None, rules, &mut work.mailbox);
        true
    }

    /// Applies the rules of the provider. `unquoted` is the local part without its quotes; `None`
    /// means that it has no quotes. Overwrites `memory`.
    fn deliver(&mut self, unquoted: Option<&[u8]>, rules: Rules, memory: &mut Vec<u8>) {
        let local = unquoted.unwrap_or_else(|| self.canonical.local());
        self.differs = false;
        let Some(mailbox) = providers::mailbox(local, self.canonical.domain(), rules) else {
            return;
        };
        memory.clear();
        mailbox.write_local(memory);
        self.spelled
            .write(&memory[bounce::user(memory)], mailbox.domain());
        self.differs = self.spelled != self.canonical;
        std::mem::swap(&mut self.spelled, &mut self.canonical);
    }

    fn spelled(&self) -> &Text {
        if self.differs {
            &self.spelled
        } else {
            &self.canonical
        }
    }

    /// Iterates over the texts to look up, and whether each counts as a mailbox; empty until an
    /// address was read.
    fn texts(&self) -> impl Iterator<Item = (&Text, bool)> + Clone {
        let is_read = !self.canonical.bytes.is_empty();
        let canonical = is_read.then_some((&self.canonical, true));
        let spelled = (is_read && self.differs).then_some((&self.spelled, false));
        canonical.into_iter().chain(spelled)
    }
}

impl Text {
    fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }

    fn local(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    fn domain(&self) -> &[u8] {
        self.bytes.get(self.at + 1..).unwrap_or_default()
    }

    fn write(&mut self, local: &[u8], domain: &[u8]) {
        self.bytes.clear();
        write_local(local, &mut self.bytes);
        self.at = self.bytes.len();
        self.bytes.push(b'@');
        self.bytes.extend_from_slice(domain);
    }

    /// Iterates over `.example.com` and `.com` for `x@mail.example.com`. Omits those that are too
    /// long to be listed.
    fn parents(&self) -> impl Iterator<Item = &[u8]> {
        let domain = self.domain();
        let domain = if domain.starts_with(b"[") {
            &[]
        } else {
            domain
        };
        let first = domain.len().saturating_sub(MAX_DOMAIN_BYTES + 1);
        let domain = &domain[first..];
        domain
            .iter()
            .enumerate()
            .filter(|&(at, &byte)| byte == b'.' && at + 1 < domain.len())
            .map(|(at, _)| &domain[at..])
    }

    fn has(&self, kind: Kind, entry: &[u8], is_mailbox: bool) -> bool {
        match kind {
            Kind::Mailbox => is_mailbox && self.bytes == entry,
            Kind::LocalPart => self.bytes[..=self.at] == *entry,
            Kind::Domain => self.bytes[self.at..] == *entry,
            Kind::Subtree => !self.domain().starts_with(b"[") && self.domain().ends_with(entry),
        }
    }
}

/// Sets `work.local` to the content of the local part; returns false if it has none.
fn read_local(raw: &[u8], rules: Rules, work: &mut Work) -> bool {
    let how = if rules.nfkc {
        Fold::CompatibleWord
    } else {
        Fold::Word
    };
    work.read.clear();
    let any = parse::local(raw, &mut work.read);
    work.local.clear();
    fold(&work.read, how, &mut work.local);
    let user = bounce::user(&work.local);
    work.local.truncate(user.end);
    work.local.drain(..user.start);
    any
}

fn read_domain(raw: &[u8], work: &mut Work) {
    work.read.clear();
    parse::domain(raw, &mut work.read);
    work.domain.clear();
    domain::canonical(&work.read, &mut work.domain);
}

fn write_local(content: &[u8], out: &mut Vec<u8>) {
    if is_dot_atom(content) {
        out.extend_from_slice(content);
    } else {
        quote(content, out);
    }
}

/// Returns whether this is a dot-atom (RFC 5322 section 3.2.3, RFC 6532 section 3.2). Excludes a
/// text that begins with a `*`, because in an entry it would be a pattern, and wide spaces, which
/// are removed outside quotes.
fn is_dot_atom(content: &[u8]) -> bool {
    let mut before = b'.';
    for &byte in content {
        if byte == b'.' && before == b'.' || !(byte == b'.' || is_atext(byte)) {
            return false;
        }
        before = byte;
    }
    before != b'.'
        && content[0] != b'*'
        && (content.is_ascii()
            || !content
                .utf8_chunks()
                .any(|chunk| chunk.valid().contains(char::is_whitespace)))
}

/// Appends the local part of an entry without a domain.
pub(super) fn local_entry(raw: &[u8], rules: Rules, out: &mut Vec<u8>) {
    let mut work = Work::default();
    read_local(raw, rules, &mut work);
    write_local(&work.local, out);
}

pub(super) fn domain_entry(raw: &[u8], out: &mut Vec<u8>) {
    let mut work = Work::default();
    read_domain(raw, &mut work);
    out.extend_from_slice(&work.domain);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// If the fast path reads an address, its result equals that of the full path.
        #[test]
        fn plain_is_full(
            written in prop_oneof![
                (
                    r"[A-Za-z0-9.+/^_`{|}~-]{1,12}|p\.?rvs=ab=x|[a-z]{0,3}[+-]?[a-z.]{1,5}",
                    r"[A-Za-z0-9.-]{1,12}|(Gmail|googlemail|yandex|me|user.fastmail|fastmail|xn--BCHER-kva)\.(com|\.com)|a-b\.proton\.me|pm\.me|Ya\.ru",
                )
                    .prop_map(|(local, domain)| format!("{local}@{domain}")),
                r"[!-~]{0,9}@[!-~]{0,9}|.{0,20}",
            ],
            bits in 0_u8..16,
        ) {
            let rules = Rules::from_bits(bits).unwrap();
            let (mut fast, mut full, mut work) = (Form::default(), Form::default(), Work::default());
            if fast.read_plain(written.as_bytes(), rules, &mut work) {
                full.read(written.as_bytes(), rules, &mut work).unwrap();
                prop_assert_eq!(&fast.canonical, &full.canonical);
                prop_assert_eq!(fast.spelled(), full.spelled());
            }
        }
    }
}
