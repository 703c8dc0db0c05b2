//! Key paths of JSON: `items[].email`.
//!
//! | written | goes |
//! |---|---|
//! | `a.b` | into an object, and an object in it |
//! | `a[]` | through an array, or the values of an object |
//! | `a{}` | to the keys of an object; only at the end |
//! | `"a.b".c` | quotes as in TOML |

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into an object, by its key.
    Key(Box<str>),
    /// Through an array, or the values of an object.
    Each,
    /// To the keys of an object.
    Names,
}

/// Reads a path.
///
/// # Errors
/// What is wrong with it.
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
            steps.push(Step::Key(key.into()));
            rest = after;
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

/// Returns the key at the start of a path, and what follows it; `None` for a quote that is not
/// closed.
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
    use super::{Step, steps};

    #[test]
    fn paths_and_what_is_none() {
        let shown = |path| {
            let shown = steps(path)?.into_iter().map(|step| match step {
                Step::Key(key) => format!("<{key}>"),
                Step::Each => "*".to_owned(),
                Step::Names => "=".to_owned(),
            });
            Ok::<_, String>(shown.collect::<String>())
        };
        for (path, expected) in [
            ("email", "<email>"),
            ("items[].email", "<items>*<email>"),
            ("[].email", "*<email>"),
            ("[]", "*"),
            ("[][]", "**"),
            ("a.b[].c[]", "<a><b>*<c>*"),
            ("{}", "="),
            ("a{}", "<a>="),
            ("a.{}", "<a>="),
            ("a[].{}", "<a>*="),
            ("\"a.b\".c", "<a.b><c>"),
            ("'a\"b'[].\"\\u00fc \\\"\"", "<a\"b>*<\u{fc} \">"),
            ("\"\"", "<>"),
            ("Remove on", "<Remove on>"),
            ("$type.@id", "<$type><@id>"),
        ] {
            assert_eq!(shown(path).as_deref(), Ok(expected), "{path}");
        }
        for path in [
            "", ".", "a.", ".a", "a..b", "[].", "[]a", "{}.a", "a{}[]", "\"a", "'a", "a\"b\"",
            "a]", "a[0]", "[", "a[", "\"a\"b",
        ] {
            assert!(shown(path).is_err(), "{path}");
        }
    }
}
