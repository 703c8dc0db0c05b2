//! The rows of `tests/senders/corpus.txt`, which explains them.

/// A sender that is listed, or one that is not, in one field of a message.
pub(crate) struct Row {
    /// A row of the file, for reports.
    pub(crate) text: &'static str,
    /// The argument of MAIL FROM.
    pub(crate) mail_from: Vec<u8>,
    /// The name of the field and its value; empty if the sender is in the envelope.
    pub(crate) field: &'static str,
    pub(crate) value: Vec<u8>,
    pub(crate) entry: &'static str,
    pub(crate) verdict: Verdict,
}

/// What must be said of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Found,
    Weak,
    No,
}

impl Row {
    /// Returns the header, and what follows; an innocent one if the sender is in the envelope.
    pub(crate) fn message(&self) -> Vec<u8> {
        match self.field {
            "" => b"From: ok@good.example\n".to_vec(),
            field => [field.as_bytes(), b": ", &self.value, b"\n"].concat(),
        }
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let lines = include_str!("../senders/corpus.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect()
}

/// Returns all entries, each once: the list.
pub(crate) fn entries(rows: &[Row]) -> Vec<&'static str> {
    let mut entries: Vec<&str> = rows.iter().map(|row| row.entry).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn row(text: &'static str) -> Row {
    let cells: Vec<&str> = text.split('\t').collect();
    let [field, value, entry, verdict, _source] = cells[..] else {
        panic!("five cells expected: {text}");
    };
    let verdict = match verdict {
        "found" => Verdict::Found,
        "weak" => Verdict::Weak,
        "no" => Verdict::No,
        other => panic!("{other} is no verdict: {text}"),
    };
    let value = written_out(value);
    let (mail_from, field, value) = match field {
        "MAIL" => (value, "", Vec::new()),
        field => (b"<bounce@good.example>".to_vec(), field, value),
    };
    Row {
        text,
        mail_from,
        field,
        value,
        entry,
        verdict,
    }
}

/// Returns a value without escapes.
fn written_out(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let (sign, mut left) = after.split_at(1);
        match sign {
            "n" => out.push(b'\n'),
            "r" => out.push(b'\r'),
            "t" => out.push(b'\t'),
            "x" => {
                let (digits, behind) = left.split_at(2);
                out.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
                left = behind;
            }
            "{" => {
                let (inside, behind) = left.split_once('}').expect("a closing brace");
                let (count, text) = inside.split_once(' ').expect("a count and a text");
                out.extend_from_slice(&text.as_bytes().repeat(count.parse().expect("a count")));
                left = behind;
            }
            sign => out.extend_from_slice(sign.as_bytes()),
        }
        rest = left;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}
