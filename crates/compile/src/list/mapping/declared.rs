//! What the owner of a list declares about one file, from options and `list.toml`.

use crate::list::registry::Format;
use crate::list::table::dates::DateFormat;
use crate::list::table::text::Text;

/// A column, with values of it.
pub(crate) type Values = (String, Vec<String>);

/// What the owner of a list declared for one file. What is empty was not declared.
///
/// A column is a heading, a number from 1, or a key path of JSON: which of them, the table decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The format.
    pub format: Option<Format>,
    /// What divides the columns.
    pub separator: Option<u8>,
    /// The columns that name the sender.
    pub entry: Vec<String>,
    /// Columns, with the values that list a row; a column may be there twice, with some of its values each.
    pub when: Vec<Values>,
    /// Columns, with the values that do not.
    pub unless: Vec<Values>,
    /// Columns of numbers, with the number from which on they list a row.
    pub at_least: Vec<(String, f64)>,
    /// Whether every row counts.
    pub all_rows: bool,
    /// Whether a domain stands for its subdomains, too.
    pub subdomains: Option<bool>,
    /// The column with the day on which an entry ends.
    pub expires_in: Option<String>,
    /// The column with the day on which an entry was added.
    pub added_in: Option<String>,
    /// How dates are written, if not in ISO 8601.
    pub date_format: Option<DateFormat>,
    /// Texts that mean no date.
    pub never: Vec<String>,
    /// Whether the format is from `list.toml`, not from an option.
    pub is_in_file: bool,
}

/// Reads what divides the columns of a table.
pub(crate) fn separator(written: &str) -> Result<u8, &'static str> {
    match (written, written.as_bytes()) {
        ("tab" | "\t", _) => Ok(b'\t'),
        ("space" | " ", _) => Ok(b' '),
        (_, &[sign @ (b',' | b';' | b'|' | b':')]) => Ok(sign),
        _ => Err("must be one of , ; | : tab space"),
    }
}

/// Reads what `rows` says: whether every row counts.
pub(crate) fn all_rows(written: &str) -> Result<bool, &'static str> {
    match written {
        "all" => Ok(true),
        _ => Err("can only be \"all\": every row counts"),
    }
}

impl Declared {
    /// Adds what `self` leaves open from what was declared at a place of lower precedence.
    #[must_use]
    pub fn or(mut self, lower: &Self) -> Self {
        // A format that is no table needs no columns: those below are about other files.
        if self.format.is_some_and(|format| !format.is_table()) && !self.is_of_table() {
            return Self {
                subdomains: self.subdomains.or(lower.subdomains),
                ..self
            };
        }
        if self.format.is_none() {
            (self.format, self.is_in_file) = (lower.format, lower.is_in_file);
        }
        let has_rule = self.has_condition();
        if !self.all_rows {
            // Conditions and `rows` exclude each other: the place of higher precedence counts.
            fill(&mut self.when, &lower.when);
            fill(&mut self.unless, &lower.unless);
            fill(&mut self.at_least, &lower.at_least);
            self.all_rows = lower.all_rows && !has_rule;
        }
        fill(&mut self.entry, &lower.entry);
        fill(&mut self.never, &lower.never);
        self.separator = self.separator.or(lower.separator);
        self.subdomains = self.subdomains.or(lower.subdomains);
        self.expires_in = self.expires_in.or_else(|| lower.expires_in.clone());
        self.added_in = self.added_in.or_else(|| lower.added_in.clone());
        self.date_format = self.date_format.or_else(|| lower.date_format.clone());
        self
    }

    fn has_condition(&self) -> bool {
        !(self.when.is_empty() && self.unless.is_empty() && self.at_least.is_empty())
    }

    /// Returns whether it says which rows count.
    #[must_use]
    pub fn has_rule(&self) -> bool {
        self.all_rows || self.has_condition()
    }

    /// Returns whether it says something that only a table has.
    #[must_use]
    pub fn is_of_table(&self) -> bool {
        let of_any_list = Self {
            format: self.format,
            subdomains: self.subdomains,
            is_in_file: self.is_in_file,
            ..Self::default()
        };
        *self != of_any_list
    }

    /// Checks what can be checked without the file.
    ///
    /// # Errors
    /// The name of a setting that contradicts another, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if self.all_rows && self.has_condition() {
            let why = "every row counts, so when, unless and at_least cannot be given, too";
            return Err(("rows", why.to_owned()));
        }
        for (column, values) in &self.when {
            let values: Vec<Text> = values.iter().map(|value| Text::new(value)).collect();
            let same = |(other, _): &&Values| Text::new(other) == Text::new(column);
            let unless = self.unless.iter().filter(same);
            let mut not_listed = unless.flat_map(|(_, values)| values);
            if let Some(value) = not_listed.find(|value| values.contains(&Text::new(value))) {
                return Err(("unless", format!("{column} = \"{value}\" is in when, too")));
            }
        }
        match self.format.filter(|format| !format.is_table()) {
            Some(format) if self.is_of_table() => {
                let remedy = "leave out what is said about columns, rows and dates";
                Err(("format", format!("{format} has no columns; {remedy}")))
            }
            _ => Ok(()),
        }
    }
}

fn fill<T: Clone>(own: &mut Vec<T>, lower: &[T]) {
    if own.is_empty() {
        own.extend_from_slice(lower);
    }
}
