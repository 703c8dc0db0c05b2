//! An address in its one form, and the entries of a list that it is found by.

use std::ops::ControlFlow;

use super::unicode::{Fold, fold};
use super::{Kind, Kinds, MAX_DOMAIN_BYTES, ParseError, Rules, domain, parse, providers};

/// The canonical form of an address. Reusable: it keeps its memory, so that
/// reading a plain ASCII address into it again allocates nothing.
///
/// ```
/// use blocklist_milter::address::{Canonical, Rules};
/// let written = r#"J. Doe <"J.Doe"@BÜCHER.example.>"#;
/// let address = Canonical::parse(written.as_bytes(), Rules::default())?;
/// assert_eq!(address.as_bytes(), b"j.doe@xn--bcher-kva.example");
/// # Ok::<(), blocklist_milter::address::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Canonical {
    outer: Form,
    /// The sender inside an SRS address, when the rules ask for it.
    inner: Form,
    has_inner: bool,
    work: Work,
}

/// An address as it was spelled (after all rules but the providers') and as it is compared.
#[derive(Clone, Debug, Default)]
struct Form {
    canonical: Text,
    spelled: Text,
    /// The two differ; else `spelled` is not filled.
    differs: bool,
}

/// `local@domain`, and where the `@` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text {
    bytes: Vec<u8>,
    at: usize,
}

/// Memory for the halves of an address on the way; kept for the next one.
#[derive(Clone, Debug, Default)]
struct Work {
    read: Vec<u8>,
    local: Vec<u8>,
    domain: Vec<u8>,
}

impl Canonical {
    /// Holds nothing yet; `as_bytes` is empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one address, however it is written.
    ///
    /// # Errors
    /// When the bytes name no address; `self` then holds nothing of use.
    pub fn read(&mut self, written: &[u8], rules: Rules) -> Result<(), ParseError> {
        self.outer.read(written, rules, &mut self.work)?;
        self.has_inner = false;
        if rules.srs
            && let Some(inner) = srs(self.outer.spelled().local())
        {
            let inner_rules = Rules {
                srs: false,
                ..rules
            };
            self.has_inner = self.inner.read(&inner, inner_rules, &mut self.work).is_ok();
        }
        Ok(())
    }

    /// Reads one address into a new form.
    ///
    /// # Errors
    /// When the bytes name no address.
    pub fn parse(written: &[u8], rules: Rules) -> Result<Self, ParseError> {
        let mut form = Self::new();
        form.read(written, rules)?;
        Ok(form)
    }

    /// `local@domain`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.outer.canonical.bytes
    }

    /// What stands before the `@`, in quotes where it must be.
    #[must_use]
    pub fn local(&self) -> &[u8] {
        self.outer.canonical.local()
    }

    /// What stands behind the `@`.
    #[must_use]
    pub fn domain(&self) -> &[u8] {
        self.outer.canonical.domain()
    }

    /// Visits the text of every entry that lists this sender, each once, of the
    /// given kinds, and stops at the first `Break`.
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
        let parts = parse::split(written)?;
        let raw_domain = parts.domain.ok_or(ParseError::NoDomain)?;
        if !read_local(parts.local, rules, work) {
            return Err(ParseError::NoLocalPart);
        }
        read_domain(raw_domain, work);
        if work.domain.is_empty() {
            return Err(ParseError::NoDomain);
        }
        self.spelled.write(&work.local, &work.domain);
        providers::map(&mut work.local, &mut work.domain, rules);
        let tag = batv(&work.local);
        self.canonical.write(&work.local[tag..], &work.domain);
        self.differs = self.canonical != self.spelled;
        Ok(())
    }

    fn spelled(&self) -> &Text {
        if self.differs {
            &self.spelled
        } else {
            &self.canonical
        }
    }

    /// The texts to look up, and whether as a mailbox.
    fn texts(&self) -> impl Iterator<Item = (&Text, bool)> + Clone {
        let spelled = self.differs.then_some((&self.spelled, false));
        std::iter::once((&self.canonical, true)).chain(spelled)
    }
}

impl Text {
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

    /// `.example.com` and `.com` for `x@mail.example.com`; no longer ones than can be listed.
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

    /// Is this one of the entries that the text was looked up by?
    fn has(&self, kind: Kind, entry: &[u8], is_mailbox: bool) -> bool {
        match kind {
            Kind::Mailbox => is_mailbox && self.bytes == entry,
            Kind::LocalPart => self.bytes[..=self.at] == *entry,
            Kind::Domain => self.bytes[self.at..] == *entry,
            Kind::Subtree => !self.domain().starts_with(b"[") && self.domain().ends_with(entry),
        }
    }
}

/// `work.local` becomes what the local part says; false if nothing stands there.
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
    let tag = batv(&work.local);
    work.local.drain(..tag);
    any
}

/// `work.domain` becomes the domain in its one form.
fn read_domain(raw: &[u8], work: &mut Work) {
    work.read.clear();
    parse::domain(raw, &mut work.read);
    work.domain.clear();
    domain::canonical(&work.read, &mut work.domain);
}

/// Appends a local part, in quotes if a dot-atom cannot hold it.
fn write_local(content: &[u8], out: &mut Vec<u8>) {
    if is_dot_atom(content) {
        out.extend_from_slice(content);
        return;
    }
    out.push(b'"');
    for &byte in content {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// RFC 5322 section 3.2.3, RFC 6532 section 3.2. A lone `*` is not one here: as an entry it would stand for everybody.
fn is_dot_atom(content: &[u8]) -> bool {
    let ends = [content.first(), content.last()];
    !ends.contains(&None)
        && !ends.contains(&Some(&b'.'))
        && content != b"*"
        && !content.windows(2).any(|two| two == b"..")
        && content
            .iter()
            .all(|&byte| byte >= 0x80 || byte == b'.' || is_atext(byte))
        && (content.is_ascii()
            || !content
                .utf8_chunks()
                .any(|chunk| chunk.valid().contains(char::is_whitespace)))
}

fn is_atext(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

/// How long the BATV tags are that a local part (lower case) begins with:
/// `prvs=` and hexadecimal digits (draft-levine-smtp-batv-01).
fn batv(local: &[u8]) -> usize {
    let mut tag = 0;
    while let Some(rest) = local[tag..].strip_prefix(b"prvs=")
        && let Some(equals) = rest.iter().position(|&byte| byte == b'=')
        && equals > 0
        && equals + 1 < rest.len()
        && rest[..equals].iter().all(u8::is_ascii_hexdigit)
    {
        tag += b"prvs=".len() + equals + 1;
    }
    tag
}

/// The sender inside `SRS0=hash=time=domain=local`, or inside SRS1 around it.
fn srs(local: &[u8]) -> Option<Vec<u8>> {
    let (version, rest) = local.split_at_checked(5)?;
    let is_separator = |byte: &u8| matches!(byte, b'=' | b'+' | b'-');
    let rest = match version {
        [b's', b'r', b's', b'0', b'=' | b'+' | b'-'] => rest,
        [b's', b'r', b's', b'1', b'=' | b'+' | b'-'] => {
            // hash = forwarder, then the rest of an SRS0 with its own separator.
            let mut fields = rest.splitn(3, |&byte| byte == b'=');
            let rest = fields.nth(2)?;
            rest.strip_prefix(b"=")
                .or_else(|| rest.get(1..))
                .filter(|_| rest.first().is_some_and(is_separator))?
        }
        _ => return None,
    };
    let mut fields = rest.splitn(4, |&byte| byte == b'=');
    let (domain, local) = (fields.nth(2)?, fields.next()?);
    let mut inner = Vec::new();
    write_local(local, &mut inner);
    inner.push(b'@');
    inner.extend_from_slice(domain);
    Some(inner)
}

/// The halves of an entry that is no mailbox; for [`super::Entry`].
pub(super) fn local_entry(raw: &[u8], rules: Rules, out: &mut Vec<u8>) -> bool {
    let mut work = Work::default();
    let any = read_local(raw, rules, &mut work);
    write_local(&work.local, out);
    any
}

/// Appends a domain in its one form; for [`super::Entry`].
pub(super) fn domain_entry(raw: &[u8], out: &mut Vec<u8>) {
    let mut work = Work::default();
    read_domain(raw, &mut work);
    out.extend_from_slice(&work.domain);
}
