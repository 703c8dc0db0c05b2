//! Reply templates: checked when the configuration is read, filled in when a sender is refused.
//!
//! ```text
//! 550 5.7.1 {address} is on the sender blocklist {list} (case {case})
//! If this is wrong, write to {contact}
//! --- -----
//!  |    `-- enhanced code (RFC 3463), same class as the code; default: 5.7.1 or 4.7.1
//!  `------- SMTP code, 4xx or 5xx
//! ```
//!
//! A line break separates lines. Only the first line begins with the codes; they are sent on each.
//! Sendmail strips the high bit, so only ASCII is allowed; Postfix replaces a class mismatch or a
//! bare code by "451 server configuration problem"; RFC 5321 section 4.5.3.1.5 allows 512 bytes in a
//! line. Text from a message is always filtered before it gets into a reply.

use std::fmt;

use crate::milter::{ReplyText, is_enhanced};
use blocklist_compile::settings::Invalid;

/// RFC 5321 section 4.5.3.1.3: a path has at most 256 octets, including its brackets.
const ADDRESS_MAX_BYTES: usize = 254;
/// Names of lists and sources are cut here.
const NAME_MAX_BYTES: usize = 64;
/// The contact if none is configured. RFC 5321 section 4.5.1 requires this mailbox at each domain
/// that receives mail, and by default mail to it is not refused. This is not an address, because
/// the recipients of a message that is refused for a header may be at several domains.
const DEFAULT_CONTACT: &str = "postmaster at the recipient's domain";

/// What a template may name in braces: the name, the most bytes, and the value.
struct Field(&'static str, usize, for<'a> fn(&Fields<'a>) -> &'a [u8]);

const FIELDS: [Field; 8] = [
    Field("address", ADDRESS_MAX_BYTES, |all| all.address),
    Field("identity", 16, |all| all.identity.as_bytes()),
    Field("list", NAME_MAX_BYTES, |all| all.list.as_bytes()),
    Field("source", NAME_MAX_BYTES, |all| {
        either(all.source, "unknown")
    }),
    Field("date", 10, |all| either(all.date, "unknown")),
    Field("case", 16, |all| all.case.as_bytes()),
    Field("client", 45, |all| either(all.client, "unknown")),
    Field("contact", ADDRESS_MAX_BYTES, |all| {
        either(all.contact, DEFAULT_CONTACT)
    }),
];

/// A checked reply text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    code: u16,
    enhanced: String,
    /// The lines as written, without the codes.
    lines: Vec<String>,
}

/// The values for a template, with any bytes: only printable ASCII is filled in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// The sender, as written.
    pub address: &'a [u8],
    /// The field with the address: `mail-from`, `from` ...
    pub identity: &'a str,
    pub list: &'a str,
    /// Name of the source inside the list; empty if unknown.
    pub source: &'a str,
    /// The day when the entry was added, `2026-08-21`; empty if unknown.
    pub date: &'a str,
    pub case: &'a str,
    /// Address of the SMTP client; empty if unknown.
    pub client: &'a str,
    /// Contact for questions about a refusal; empty if none is configured.
    pub contact: &'a str,
}

impl Template {
    /// Returns the first fault, with its byte offset, or the template.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        check_plain(text)?;
        let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let first = text.lines().next().unwrap_or_default();
        let Some((code, after)) = code_of(first) else {
            return refuse(
                0,
                "must begin with a reply code from 400 to 599 and a space, such as \"550 5.7.1 \"",
            );
        };
        let class = &first[..1];
        let given = enhanced_of(after);
        if given.is_some_and(|enhanced| !enhanced.starts_with(class)) {
            let message =
                format!("the enhanced code must begin with {class}, as the code {code} does");
            return refuse(offset(after), message);
        }
        let enhanced = given.unwrap_or(if class == "4" { "4.7.1" } else { "5.7.1" });
        let words = given.map_or(after, |given| after[given.len()..].trim_start_matches(' '));
        let lines: Vec<&str> = std::iter::once(words).chain(text.lines().skip(1)).collect();
        let mut longest = Vec::new();
        for (number, &line) in lines.iter().enumerate() {
            let has_codes = |(own, after)| own == code || enhanced_of(after).is_some();
            if number > 0 && code_of(line).is_some_and(has_codes) {
                return refuse(offset(line), "only the first line begins with the codes");
            }
            longest.push(filled(line, offset(line), |field| "x".repeat(field.1))?);
        }
        match ReplyText::new(code, enhanced, &longest) {
            Ok(_) => Ok(Self {
                code,
                enhanced: enhanced.to_owned(),
                lines: lines.into_iter().map(str::to_owned).collect(),
            }),
            Err(fault) => refuse(0, format!("with the longest values, {fault}")),
        }
    }

    /// Returns the SMTP code, 400 to 599.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns the reply with these values; `None` if a line of values alone is blank.
    pub fn fill(&self, fields: &Fields<'_>) -> Option<ReplyText> {
        let value = |Field(_, longest, value): &Field| cleaned(value(fields), *longest);
        let lines = self.lines.iter().map(|line| filled(line, 0, value));
        let lines: Vec<String> = lines.collect::<Result<_, _>>().ok()?;
        ReplyText::new(self.code, &self.enhanced, &lines).ok()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines.join("\n");
        write!(f, "{} {} {lines}", self.code, self.enhanced)
    }
}

fn refuse<T>(offset: usize, message: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid {
        message: message.into(),
        offset: Some(offset),
    })
}

fn check_plain(text: &str) -> Result<(), Invalid> {
    let is_plain = |c: char| matches!(c, '\n' | '\r' | ' ') || c.is_ascii_graphic();
    let Some((offset, odd)) = text.char_indices().find(|&(_, c)| !is_plain(c)) else {
        return Ok(());
    };
    let what = match odd.is_ascii() {
        true => "a control character",
        false => "not ASCII",
    };
    let message = format!("{odd:?} is {what}; SMTP replies are plain ASCII");
    refuse(offset, message)
}

fn code_of(line: &str) -> Option<(u16, &str)> {
    let (digits, rest) = line.split_at_checked(3)?;
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    let code = is_number.then(|| digits.parse().ok())??;
    let text = rest.strip_prefix(['-', ' '])?.trim_start_matches(' ');
    (400..600).contains(&code).then_some((code, text))
}

fn enhanced_of(text: &str) -> Option<&str> {
    text.split(' ').next().filter(|word| is_enhanced(word))
}

/// Fills in one line of a template; `base` is its offset in the template.
fn filled(line: &str, base: usize, value: impl Fn(&Field) -> String) -> Result<String, Invalid> {
    let mut text = String::new();
    let mut at = 0;
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        let refuse = |message: &str| refuse(base + at, message);
        if rest.starts_with("{{") || rest.starts_with("}}") {
            text.push_str(&rest[..1]);
            at += 2;
        } else if let Some(named) = rest.strip_prefix('{') {
            let Some((name, _)) = named.split_once('}') else {
                return refuse("a { without its }; write {{ for a literal brace");
            };
            let Some(field) = FIELDS.iter().find(|field| field.0 == name) else {
                let names = FIELDS.map(|field| format!("{{{}}}", field.0)).join(" ");
                return refuse(&format!("{{{name}}} is unknown; known are {names}"));
            };
            text.push_str(&value(field));
            at += name.len() + 2;
        } else if rest.starts_with('}') {
            return refuse("a } without its {; write }} for a literal brace");
        } else {
            let end = rest.find(['{', '}']).unwrap_or(rest.len());
            text.push_str(&rest[..end]);
            at += end;
        }
    }
    Ok(text)
}

fn either<'a>(text: &'a str, default: &'static str) -> &'a [u8] {
    if text.is_empty() { default } else { text }.as_bytes()
}

/// Returns printable ASCII unchanged, one `?` for every other character, cut at `longest` bytes; each
/// `%` is sent twice.
fn cleaned(value: &[u8], longest: usize) -> String {
    let text = String::from_utf8_lossy(value);
    let clean = |c: char| match c == ' ' || c.is_ascii_graphic() {
        true => c,
        false => '?',
    };
    let mut sent = 0;
    let fits = |c: &char| {
        sent += if *c == '%' { 2 } else { 1 };
        sent <= longest
    };
    text.chars().map(clean).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, address: &[u8]) -> String {
        let fields = Fields {
            address,
            list: "spam",
            case: "c1",
            ..Fields::default()
        };
        let template = Template::parse(template).unwrap();
        template.fill(&fields).unwrap().to_string()
    }

    #[test]
    fn fills_in_and_cleans() {
        assert_eq!(
            filled("550 5.7.1 {address} on {list} ({case}, {date})", b"a@b"),
            "550 5.7.1 a@b on spam (c1, unknown)"
        );
        let odd = "\u{e9}\r\n\0@b\u{202e}".as_bytes();
        assert_eq!(filled("550 {address}", odd), "550 5.7.1 ????@b?");
        assert_eq!(filled("550 {address}", b"\xff\xfe@b"), "550 5.7.1 ??@b");
        assert_eq!(filled("550 {{x}} 100%", b""), "550 5.7.1 {x} 100%");
        assert_eq!(filled("451 later", b""), "451 4.7.1 later");
        for (byte, kept) in [(b'x', ADDRESS_MAX_BYTES), (b'%', ADDRESS_MAX_BYTES / 2)] {
            let long = filled("550 {address}", &[byte; 1000]);
            assert_eq!(long.len(), "550 5.7.1 ".len() + kept);
        }
    }

    #[test]
    fn a_later_line_may_begin_with_a_number() {
        let template = "550 5.7.1 Write to {list}\r\n451 Main Street\n";
        let sent = "550-5.7.1 Write to spam\n550 5.7.1 451 Main Street";
        assert_eq!(filled(template, b""), sent);
        let parsed = Template::parse(template).unwrap();
        assert_eq!(Template::parse(&parsed.to_string()).unwrap(), parsed);
    }
}
