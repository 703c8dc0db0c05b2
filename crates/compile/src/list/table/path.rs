//! Key paths of JSON: `items[].email`.
//!
//! | written | goes |
//! |---|---|
//! | `a.b` | into an object, and an object in it |
//! | `a[]` | through an array, or the values of an object |
//! | `a{}` | to the keys of an object; only at the end |
//! | `"a.b".c` | quotes as in TOML |

use super::text::Text;

/// The most paths of a declaration of each kind, and the most steps of one.
const MAX: usize = 32;

/// The paths of a declaration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Paths {
    /// To the entries, from the document.
    pub(crate) entries: Vec<Vec<Step>>,
    /// To the values of a row, from the object that holds its entry.
    pub(crate) values: Vec<Vec<Text>>,
    /// Whether nobody declared them: it is an array of strings, and anything else refuses the file.
    pub(crate) is_undeclared: bool,
}

impl Paths {
    /// Returns the paths to entries, and to values of their rows.
    pub(crate) fn new(entries: Vec<Vec<Step>>, values: &[Vec<Step>]) -> Result<Self, &'static str> {
        if entries.len().max(values.len()) > MAX {
            return Err("more than 32 paths");
        }
        let keys = |path: &Vec<Step>| -> Option<Vec<Text>> {
            let keys = path.iter().map(|step| match step {
                Step::Key(key) => Some(key.clone()),
                Step::Each | Step::Names => None,
            });
            keys.collect()
        };
        let values: Option<Vec<_>> = values.iter().map(keys).collect();
        let values = values
            .ok_or("[] and {} lead to more than one value of a row; they can only be in entry")?;
        let has_no_row = |path: &Vec<Step>| path.iter().all(|step| *step == Step::Each);
        if !values.is_empty() && entries.iter().any(has_no_row) {
            return Err("no object holds the entry, so it has no other values");
        }
        // Of each object, either one member is read or all are: a path of the other kind would find nothing.
        let differ = |a: &Vec<Step>, b: &Vec<Step>| {
            let parting = a.iter().zip(b).find(|(a, b)| a != b);
            parting.is_some_and(|steps| !matches!(steps, (Step::Key(_), Step::Key(_))))
        };
        let mut rest = entries.as_slice();
        while let [first, others @ ..] = rest {
            if others.iter().any(|other| differ(first, other)) {
                return Err("two paths go through the same object in different ways");
            }
            rest = others;
        }
        Ok(Self {
            entries,
            values,
            is_undeclared: false,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into an object, by its key.
    Key(Text),
    /// Through an array, or the values of an object.
    Each,
    /// To the keys of an object.
    Names,
}

pub(crate) fn steps(written: &str) -> Result<Vec<Step>, String> {
    let wrong = |why: &str| format!("\"{written}\" is no path such as items[].email: {why}");
    let mut steps: Vec<Step> = Vec::new();
    let mut rest = written;
    loop {
        if let Some(after) = rest.strip_prefix("[]") {
            steps.push(Step::Each);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{}") {
            steps.push(Step::Names);
            rest = after;
        } else {
            let (key, after) = key(rest).ok_or_else(|| wrong("a quote that is not closed"))?;
            if key.is_empty() && !rest.starts_with(['"', '\'']) {
                return Err(wrong(
                    "a key is missing; one with . [ ] { } in it needs quotes",
                ));
            }
            steps.push(Step::Key(Text::new(&key)));
            rest = after;
        }
        if steps.len() > MAX {
            return Err(wrong("more than 32 steps"));
        }
        let is_end = rest.is_empty();
        if steps.last() == Some(&Step::Names) && !is_end {
            return Err(wrong("{} can only be its end"));
        }
        if is_end {
            return Ok(steps);
        }
        rest = match rest.strip_prefix('.') {
            Some(after) => after,
            None if rest.starts_with(['[', '{']) => rest,
            None => return Err(wrong("a . is missing")),
        };
    }
}

/// Returns the key at the start of a path, and what follows it, unless a quote is not closed.
fn key(path: &str) -> Option<(String, &str)> {
    match path.as_bytes().first() {
        Some(b'\'') => {
            let (key, after) = path.get(1..)?.split_once('\'')?;
            Some((key.to_owned(), after))
        }
        Some(b'"') => {
            // Escapes are those of JSON, too.
            let mut keys = serde_json::Deserializer::from_str(path).into_iter::<String>();
            let key = keys.next()?.ok()?;
            path.get(keys.byte_offset()..).map(|after| (key, after))
        }
        _ => {
            let end = path.find(['.', '[', ']', '{', '}', '"', '\'']);
            let (key, after) = path.split_at(end.unwrap_or(path.len()));
            Some((key.to_owned(), after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> Result<String, String> {
        let (entry, value) = path.split_once(", ").unwrap_or((path, ""));
        let entry = steps(entry)?;
        if !value.is_empty() {
            let paths = Paths::new(vec![entry], &[steps(value)?]);
            return paths.map(|_| "good".to_owned()).map_err(str::to_owned);
        }
        let shown = entry.into_iter().map(|step| match step {
            Step::Key(key) => format!("<{}>", key.0),
            Step::Each => "*".to_owned(),
            Step::Names => "=".to_owned(),
        });
        Ok(shown.collect())
    }

    #[test]
    fn paths_and_what_is_none() {
        for row in include_str!("../../../../../tests/pure/list/paths.txt").lines() {
            let (path, expected) = row.split_once(" -> ").unwrap();
            match shown(path) {
                Ok(shown) => assert_eq!(shown, expected, "{path}"),
                Err(why) => assert!(why.contains(expected), "{path}: {why}"),
            }
        }
    }
}
