//! Headings that name the file of the lines below them.
//!
//! ```text
//!   ==> whitelist.txt <==                head, tail
//!   ::::::::::::::                       more
//!   whitelist.txt
//!   ::::::::::::::
//!   # ==> whitelist.txt                  a person
//!   cat > /etc/mail/whitelist <<EOF      a shell script
//! ```
//!
//! A file of any other name is a blocklist, as in a folder of lists. What a shell script does with
//! other files is unknown.

use super::label::Meaning;

/// Returns what a line that names a file says about the lines below it.
pub(crate) fn file_heading(text: &[u8]) -> Option<Meaning> {
    if let Some(name) = text.strip_prefix(b"==> ") {
        return name.strip_suffix(b" <==").map(of_file);
    }
    match text {
        [b'#', comment @ ..] => of_comment(comment),
        _ => of_script(text),
    }
}

/// Returns what the name of a file says about its entries.
pub(crate) fn of_file(name: &[u8]) -> Meaning {
    match Meaning::of(stem(name).unwrap_or(name)) {
        skipped @ Meaning::Skipped(_) => skipped,
        Meaning::Listed | Meaning::Unknown => Meaning::Listed,
    }
}

/// Returns what `==> whitelist.txt` or `--- whitelist.txt ---` says; `None` for a remark with other
/// words.
fn of_comment(comment: &[u8]) -> Option<Meaning> {
    let is_sign = |b: &u8| b"#=-*> <:".contains(b);
    let start = comment.iter().position(|b| !is_sign(b))?;
    let end = comment.iter().rposition(|b| !is_sign(b))?;
    let stem = stem(comment.get(start..=end)?)?;
    let meaning = Meaning::of(stem);
    (matches!(meaning, Meaning::Skipped(_)) && Meaning::all_known(stem)).then_some(meaning)
}

/// Returns what a line of a shell script says: `cat > whitelist <<EOF`.
fn of_script(text: &[u8]) -> Option<Meaning> {
    let at = memchr::memmem::find(text, b"<<")?;
    let (command, end) = text.split_at(at);
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || b"<-_'\" ".contains(b);
    let is_here = end.iter().any(u8::is_ascii_alphabetic) && end.iter().all(is_word);
    let has_command = command.iter().any(u8::is_ascii_alphabetic);
    (is_here && has_command).then(|| Meaning::of(command))
}

/// Returns the name of a list without its folder and extension.
fn stem(name: &[u8]) -> Option<&[u8]> {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    let (stem, extension) = name.split_at(memchr::memrchr(b'.', name)?);
    let base = stem.rsplit(|&b| b == b'/').next()?;
    let is_list = EXTENSIONS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(extension));
    (is_list && name.iter().all(is_name) && !base.is_empty()).then_some(base)
}

/// Extensions of lists.
const EXTENSIONS: &[&[u8]] = &[
    b".cf", b".conf", b".csv", b".dat", b".list", b".lst", b".map", b".tsv", b".txt",
];
