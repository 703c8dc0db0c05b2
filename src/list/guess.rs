//! Detects the format of a list from its first lines.
//!
//! Each line votes for the one format that it can have. The format with the most votes wins if at
//! least half of the lines that say anything agree; else the list is plain. The file name decides
//! only between formats that the content leaves open. Mistakes are safe: `plain` knows allowances
//! too, and rejects with a reason what it does not understand.

use crate::list::format::Format;
use crate::list::formats::conflict;
use crate::list::formats::csv::{is_border, is_parted_by_bars, separator};
use crate::list::formats::dnsmasq::is_of_unbound;
use crate::list::formats::hosts::is_nowhere;
use crate::list::formats::out::before_comment;
use crate::list::formats::plain;
use crate::list::formats::score::is_symbol;
use crate::list::formats::sections::{is_signature, is_underline};
use crate::list::meaning::action::Action;
use crate::list::meaning::flag::Flag;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::label::Meaning;
use crate::list::meaning::section_heading::{
    block, closes_block, heading, is_object, key_and_value, line_of_record, open_comment,
};
use crate::list::meaning::statement::{Statement, holds_entry};
use crate::list::row::entry::{is_part_of, looks_like_entry};
use crate::list::text::lines::lines;
use crate::list::text::words::Words;
use crate::list::whole_text::of_whole;

/// Maximum number of lines that vote. Beyond them, lists do not change.
const LINES: usize = 500;

/// Maximum number of bytes that are read.
const HEAD: usize = 1 << 20;

/// Returns the format of a list that begins with `head` (some kilobytes are enough). `file_name`
/// is a hint for what the content leaves open.
#[must_use]
pub fn guess(head: &[u8], file_name: &str) -> Format {
    let head = head.strip_prefix(plain::BOM).unwrap_or(head);
    // The last line may be cut off.
    let head = match head.get(..HEAD).unwrap_or(head) {
        whole if whole.len() == head.len() && head.len() < HEAD => whole,
        cut => cut
            .get(..memchr::memrchr(b'\n', cut).unwrap_or(cut.len()))
            .unwrap_or(cut),
    };
    let name = Name::new(file_name);
    if let Some(format) = of_whole(head, name.extension()) {
        return format;
    }
    let mut votes: Vec<(Format, usize)> = Vec::new();
    let mut voting = 0;
    let mut heads_others = false;
    let mut in_object = false;
    let mut all_indented = true;
    let mut has_plus = false;
    let mut has_blocks = false;
    let mut closes_blocks = false;
    let mut statement = Statement::default();
    let mut has_continuation = false;
    let mut before: &[u8] = b"";
    let mut rows = Rows::default();
    for line in lines(head) {
        let line = line.strip_prefix(plain::BOM).unwrap_or(line);
        let starts_with_space = line.first().is_some_and(u8::is_ascii_whitespace);
        let text = line.trim_ascii();
        let heading = heading(text);
        let block = block(text);
        has_blocks |= block.is_some_and(|meaning| meaning != Meaning::Listed);
        closes_blocks |=
            has_blocks && closes_block(text) && !text.iter().any(u8::is_ascii_alphanumeric);
        heads_others |= heading.is_some_and(|heading| heading.meaning != Meaning::Listed)
            || open_comment(text).is_some()
            || line_of_record(text).is_some()
            || is_underline(text)
            || is_signature(before, text)
            || conflict::is_mark(line)
            || in_object && starts_with_space && key_and_value(text).is_some();
        before = text;
        has_plus |= text.starts_with(b"+ ") || text.starts_with(b"+\t");
        in_object = is_object(text);
        // The lines after `allowed = [` are elements of an array.
        let is_array = |value: &[u8]| value.starts_with(b"[") && value.ends_with(b"]");
        if heading.is_some() && text.ends_with(b"[")
            || voting == 0 && key_and_value(text).is_some_and(|(_, value)| is_array(value))
        {
            return Format::Sections;
        }
        // `BlockedSenders : {spam@bad.example, spam2@bad.example,`
        let in_braces = |value: &[u8]| value.starts_with(b"{") && holds_entry(value);
        if key_and_value(text)
            .is_some_and(|(key, value)| in_braces(value) && Meaning::of(key) != Meaning::Unknown)
        {
            return Format::Sections;
        }
        if voting >= LINES {
            continue;
        }
        let is_comment = text.first() == Some(&b'#') && !text.starts_with(b"##");
        let is_other = heading.is_some() || block.is_some() || closes_block(text);
        if is_other {
            statement = Statement::default();
        } else if text.first() != Some(&b'#') {
            let indent = line.len() - line.trim_ascii_start().len();
            has_continuation |= statement.next(text, indent).is_some() && holds_entry(text);
        }
        if text.is_empty() || is_comment || is_other || is_border(text) || conflict::is_mark(line) {
            continue;
        }
        all_indented &= starts_with_space;
        if voting == 0 && is_heading(text) {
            return Format::Csv { column: 0 };
        }
        let format = match of_line(text, &name) {
            Some(format) => format,
            // It may continue the previous line.
            None if starts_with_space && voting > 0 && !all_indented => continue,
            None => Format::Plain,
        };
        // One such line is enough: no other format has it, and the lines around it (thousands of
        // other settings, bare names) say nothing.
        if matches!(
            format,
            Format::SpamAssassin | Format::Rbldnsd | Format::Dnsmasq
        ) {
            return format;
        }
        voting += 1;
        rows.add(text);
        match votes.iter_mut().find(|(other, _)| *other == format) {
            Some((_, count)) => *count += 1,
            None => votes.push((format, 1)),
        }
    }
    // Lines that both programs accept are Sendmail's if there are lines that Postfix does not.
    if votes
        .iter()
        .any(|(format, _)| *format == Format::SendmailAccess)
    {
        let both = votes
            .iter()
            .filter(|(format, _)| matches!(format, Format::SendmailAccess | Format::PostfixAccess))
            .map(|(_, count)| count)
            .sum();
        votes.push((Format::SendmailAccess, both));
    }
    let format = votes
        .into_iter()
        .filter(|(_, count)| count * 2 >= voting)
        .max_by_key(|(format, count)| (*count, *format != Format::Plain))
        .map_or(Format::Plain, |(format, _)| format);
    match format {
        Format::Plain | Format::Exim
            if heads_others || has_blocks || has_plus || has_continuation =>
        {
            Format::Sections
        }
        // `"spam@bad.example",` on each line: the elements of an array.
        Format::Csv { .. } if closes_blocks || has_continuation => Format::Sections,
        Format::Plain if rows.is_table() => Format::Csv { column: 0 },
        _ => format.or_named(&name),
    }
}

/// Returns whether the beginning of a list, perhaps in the middle of a line, has nothing but
/// comments, so that more of it is wanted to tell its format.
#[must_use]
pub fn says_nothing(head: &[u8]) -> bool {
    lines(head).all(|line| matches!(line.trim_ascii(), [] | [b'#' | b';', ..] | [b'/', b'/', ..]))
}

impl Format {
    /// Returns the format that the file name tells if the content leaves it open.
    fn or_named(self, name: &Name) -> Self {
        match (self, name.extension()) {
            (Self::Plain | Self::Rspamd, _) if name.has("amavis") => Self::Amavis,
            (Self::Plain, "cf") => Self::SpamAssassin,
            (Self::Plain, "rbldnsd" | "dnset") => Self::Rbldnsd,
            (Self::Plain, "zone" | "rpz") => Self::Rpz,
            (Self::Plain, "map") => Self::Rspamd,
            (Self::Plain, "pcre") => Self::Patterns,
            (Self::Plain, "csv" | "tsv") => Self::Csv { column: 0 },
            (Self::Plain, _) if name.has("lsearch") => Self::Exim,
            (Self::Plain, _) if name.has("_regex") => Self::Patterns,
            _ => self,
        }
    }
}

/// The file name in lower case, without the suffixes of compressors.
struct Name {
    whole: String,
}

impl Name {
    fn new(file_name: &str) -> Self {
        let base = file_name.rsplit('/').next().unwrap_or(file_name);
        let mut whole = base.to_ascii_lowercase();
        while let Some(packed) = COMPRESSORS.iter().find(|suffix| whole.ends_with(**suffix)) {
            whole.truncate(whole.len() - packed.len());
        }
        Self { whole }
    }

    fn extension(&self) -> &str {
        self.whole
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }

    fn has(&self, part: &str) -> bool {
        self.whole.contains(part)
    }
}

/// Suffixes of files that are unpacked before they are read.
const COMPRESSORS: &[&str] = &[".gz", ".gzip", ".zst", ".zstd", ".bz2", ".bzip2", ".xz"];

/// Whether every line has the same number of domains or addresses, with only a comma or semicolon
/// between them: a table of domains and their mail servers or registrars, or of senders and their
/// recipients. In a list, people put a space there, and a different number on each line.
#[derive(Default)]
struct Rows {
    lines: usize,
    /// The number on the first line; `None` once a line was different.
    width: Option<usize>,
}

impl Rows {
    fn add(&mut self, text: &[u8]) {
        let width = Self::width(text);
        self.lines += 1;
        if self.lines == 1 {
            self.width = width;
        } else if self.width != width {
            self.width = None;
        }
    }

    fn width(text: &[u8]) -> Option<usize> {
        if text.iter().any(|b| matches!(b, b' ' | b'<' | b'"')) {
            return None;
        }
        let separator = separator(text);
        let mut width = 0;
        for field in text.split(|&b| b == separator) {
            width += 1;
            if !looks_like_entry(field) {
                return None;
            }
        }
        (width > 1).then_some(width)
    }

    fn is_table(&self) -> bool {
        self.lines > 1 && self.width.is_some()
    }
}

/// Returns whether the first line is the heading of a table.
fn is_heading(text: &[u8]) -> bool {
    let separator = separator(text);
    let mut names = text.split(|&b| b == separator).map(|name| {
        let name = name.trim_ascii();
        let name = name.strip_prefix(b"\"").unwrap_or(name);
        name.strip_suffix(b"\"").unwrap_or(name)
    });
    names
        .clone()
        .any(|name| matches!(Heading::of(name), Some(Heading::Entry(_))))
        && !names.any(looks_like_entry)
        || heads_lists(text, separator)
}

/// Returns whether all names in a line are those of lists beside each other: `Blocked,Allowed`.
fn heads_lists(text: &[u8], separator: u8) -> bool {
    let names = text.split(|&b| b == separator).map(<[u8]>::trim_ascii);
    let names = names.filter(|name| !name.is_empty());
    let is_list = |name| {
        let flags = [Flag::Allows, Flag::Blocks].map(Heading::Flag);
        Heading::of(name).is_some_and(|heading| flags.contains(&heading))
    };
    names.clone().count() > 1 && names.clone().all(is_list)
}

/// Returns the only format that a line can have; `None` for a line that may be plain.
fn of_line(text: &[u8], name: &Name) -> Option<Format> {
    if let Some(format) = by_start(text) {
        return Some(format);
    }
    let text = before_comment(text);
    if text.contains(&b'|') && is_parted_by_bars(text) {
        return Some(Format::Csv { column: 0 });
    }
    let mut words = Words(text);
    let (Some(first), second) = (words.next(), words.next()) else {
        return None;
    };
    let option = first.to_ascii_lowercase();
    if [
        &b"blocklist_"[..],
        b"blacklist_",
        b"unblocklist_",
        b"unblacklist_",
        b"welcomelist_",
        b"whitelist_",
    ]
    .iter()
    .any(|start| option.starts_with(start))
        && second.is_some()
    {
        return Some(Format::SpamAssassin);
    }
    let is_record = |word: &[u8]| {
        [&b"CNAME"[..], b"SOA", b"NS"]
            .iter()
            .any(|kind| kind.eq_ignore_ascii_case(word))
    };
    if Words(text)
        .skip(usize::from(!first.is_empty()))
        .take(3)
        .any(is_record)
        || (is_record(first) && second.is_some())
    {
        return Some(Format::Rpz);
    }
    if has_tag(first) {
        return Some(Format::SendmailAccess);
    }
    let has_separator = text.contains(&b',') || first.contains(&b';');
    if first.contains(&b',') || has_separator && second.is_none_or(|s| !is_action(s)) {
        return table(text);
    }
    let Some(second) = second else {
        // `bad.example:` with nothing after it.
        return (text.ends_with(b":")).then_some(Format::Exim);
    };
    if is_nowhere(first).is_some() && !is_action(second) {
        return Some(Format::Hosts);
    }
    if first.ends_with(b":") {
        return Some(Format::Exim);
    }
    if second.starts_with(b":") && second.iter().filter(|&&b| b == b':').count() >= 2 {
        return Some(Format::Rbldnsd);
    }
    if let Some(format) = with_action(second, name) {
        return Some(format);
    }
    if text.contains(&b'\t') {
        return table(text);
    }
    if Action::of_score(second).is_some() || is_symbol(second) {
        return Some(Format::Rspamd);
    }
    None
}

/// Recognizes the formats whose lines begin like no other's.
fn by_start(text: &[u8]) -> Option<Format> {
    match text {
        [b'|', b'|', ..] | [b'@', b'@', ..] | [b'!', b' ', ..] => Some(Format::Adblock),
        // `[Adblock Plus 2.0]`, not `[a@bad.example, b@bad.example]`
        [b'[', rest @ ..]
            if rest.first().is_some_and(u8::is_ascii_alphabetic)
                && !rest.iter().any(|b| matches!(b, b'@' | b',')) =>
        {
            Some(Format::Adblock)
        }
        // Not `$blacklist = array('spam@bad.example')`.
        [b'$', rest @ ..] if rest.first().is_some_and(u8::is_ascii_uppercase) => {
            let is_soa = text.starts_with(b"$SOA") || text.starts_with(b"$NS");
            Some(if is_soa { Format::Rbldnsd } else { Format::Rpz })
        }
        // `:127.0.0.2:listed` or `:2:listed`; `::1` is an address of a hosts file.
        [b':', b'0'..=b'9', ..] => Some(Format::Rbldnsd),
        [b'"', ..] => quoted_table(text),
        [b'^', ..] if memchr::memmem::find(text, b": ").is_some() => Some(Format::Exim),
        [b'^', ..] => Some(Format::Patterns),
        [b'/' | b'!', ..] => {
            let text = text.strip_prefix(b"!").unwrap_or(text);
            let pattern = text.strip_prefix(b"/")?;
            let end = memchr::memrchr(b'/', pattern)?;
            let after = pattern.get(end + 1..)?;
            let flags = after.split(u8::is_ascii_whitespace).next()?;
            flags
                .iter()
                .all(u8::is_ascii_alphabetic)
                .then_some(Format::Patterns)
        }
        b"endif" => Some(Format::Patterns),
        _ if is_of_unbound(text) => Some(Format::Dnsmasq),
        _ if text.starts_with(b"if /") || text.starts_with(b"if !/") => Some(Format::Patterns),
        _ => {
            let (option, value) = text.split_at(memchr::memchr(b'=', text)?);
            let is_option = matches!(option.trim_ascii(), b"address" | b"server" | b"local");
            (is_option && value.get(1..)?.trim_ascii_start().starts_with(b"/"))
                .then_some(Format::Dnsmasq)
        }
    }
}

/// Recognizes `"spam@bad.example","12"`: a quoted field, then a separator, or nothing but a quoted
/// entry. `"a b"@bad.example` and `"Name" <spam@bad.example>` are not.
fn quoted_table(text: &[u8]) -> Option<Format> {
    let mut quoted = false;
    let close = text.iter().position(|&b| {
        let was = quoted;
        quoted ^= b == b'"';
        was && !quoted
    })?;
    let is_field = matches!(text.get(close + 1), Some(b',' | b';' | b'\t'));
    let is_entry = || {
        let inner = text.get(1..close).unwrap_or_default();
        close + 1 == text.len() && looks_like_entry(inner)
    };
    (is_field || is_entry()).then_some(Format::Csv { column: 0 })
}

/// Returns CSV if a line with separators is a row of a table rather than several entries.
fn table(text: &[u8]) -> Option<Format> {
    let separator = separator(text);
    let mut fields = text
        .split(|&b| b == separator)
        .map(<[u8]>::trim_ascii)
        .filter(|field| !field.is_empty());
    let first = fields.next()?;
    let data = fields.any(|field| {
        // `a@bad.example, b@bad.example; c@bad.example`
        let mut several = field.split(|b| matches!(b, b',' | b';'));
        let is_entry =
            field.contains(&b'<') || several.all(|entry| looks_like_entry(entry.trim_ascii()));
        !is_entry || is_part_of(field, first) || is_part_of(first, field)
    });
    // A number, a day or a word: `2026-01-01,joe@good.example,spam@bad.example`.
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    let data =
        data || !looks_like_entry(first) && first.iter().all(is_word) && first.len() < text.len();
    (data || text.ends_with(b",") || separator == b'\t')
        .then_some(Format::Csv { column: 0 })
        .filter(|_| !first.contains(&b'<'))
}

/// Returns whether a word begins with a tag before the key: `From:`, `To:`, `Connect:`, `Spam:`.
fn has_tag(word: &[u8]) -> bool {
    const TAGS: &[&[u8]] = &[
        b"From:",
        b"To:",
        b"Connect:",
        b"Spam:",
        b"ClientConn:",
        b"ClientRate:",
        b"GreetPause:",
        b"SRV_Features:",
        b"TLS_Clt:",
        b"TLS_Rcpt:",
        b"TLS_Srv:",
        b"Try_TLS:",
    ];
    TAGS.iter().any(|tag| {
        word.len() > tag.len()
            && word
                .get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    })
}

/// Returns whether a word is an action of an access table.
fn is_action(word: &[u8]) -> bool {
    let is_code = matches!(word, [b'4' | b'5', a, b] if a.is_ascii_digit() && b.is_ascii_digit());
    Action::of(word).is_some() || is_code
}

/// Returns the program whose access table has this action.
fn with_action(word: &[u8], name: &Name) -> Option<Format> {
    let starts = |prefix: &[u8]| {
        word.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    if starts(b"ERROR:") || starts(b"DISCARD:") || starts(b"QUARANTINE:") || starts(b"RELAY") {
        return Some(Format::SendmailAccess);
    }
    if !is_action(word) && !starts(b"reject_") && !starts(b"check_") && !starts(b"permit_") {
        return None;
    }
    Some(if name.has("sendmail") || name.whole == "access" {
        Format::SendmailAccess
    } else {
        Format::PostfixAccess
    })
}
