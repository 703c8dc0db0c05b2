//! The paths of a declaration, joined to a tree that is walked while JSON is read.
//!
//! ```text
//!   entry = "items[].email"             items -> [] -> email: an entry
//!   when = { type = ..., "meta.x" }                |-> type: value 0
//!                                                  |-> meta: value 1, which is at x in it
//!                                            a row: the object that holds the entry
//! ```

use super::path::Step;
use super::text::Text;

/// The most keys of one object that may be declared.
pub(crate) const MAX_KEYS: usize = 32;

/// A place in a document that some path passes. The first is that of the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// The keys of an object that count, and where they lead.
    pub(crate) keys: Vec<(Text, Self)>,
    /// Where the elements of an array lead, or the values of an object.
    pub(crate) each: Option<Box<Self>>,
    /// Whether the keys of an object are entries. Their values are at `each`.
    pub(crate) has_names: bool,
    /// Whether the value is an entry.
    pub(crate) is_entry: bool,
    /// Whether an object here holds entries, so that it is a row.
    pub(crate) is_row: bool,
    /// The values of a row: the number of the key, and the keys below it.
    pub(crate) values: Vec<(usize, Vec<Text>)>,
}

impl Node {
    /// Returns the tree of paths to entries, and of paths from the object that holds an entry to
    /// the values of the row.
    ///
    /// # Errors
    /// Paths that contradict each other.
    pub(crate) fn new(entries: &[Vec<Step>], values: &[Vec<Step>]) -> Result<Self, String> {
        let keys = |path: &Vec<Step>| {
            let keys = path.iter().map(|step| match step {
                Step::Key(key) => Some(Text::new(key)),
                Step::Each | Step::Names => None,
            });
            keys.collect::<Option<Vec<Text>>>()
        };
        let values: Option<Vec<Vec<Text>>> = values.iter().map(keys).collect();
        let values = values
            .ok_or("[] and {} lead to more than one value of a row; they can only be in entry")?;
        let mut root = Self::default();
        for path in entries {
            root.add(path, &values)?;
        }
        Ok(root)
    }

    /// Adds the path of an entry.
    fn add(&mut self, path: &[Step], values: &[Vec<Text>]) -> Result<(), String> {
        let last_key = path.iter().rposition(|step| *step != Step::Each);
        if last_key.is_none() && !values.is_empty() {
            return Err("no object holds the entry, so it has no other values".to_owned());
        }
        let mut node = self;
        for (at, step) in path.iter().enumerate() {
            if *step == Step::Names {
                node.has_names = true;
            } else if Some(at) == last_key {
                node.make_row(values)?;
            }
            let is_other_way = match step {
                Step::Key(_) => node.each.is_some(),
                Step::Each | Step::Names => !node.keys.is_empty(),
            };
            if is_other_way || node.has_names && *step != Step::Names {
                return Err("two paths go through the same object in different ways".to_owned());
            }
            if node.is_entry {
                return Err("one entry is inside another".to_owned());
            }
            node = match step {
                Step::Key(key) => {
                    let number = node.key(&Text::new(key))?;
                    &mut node.keys[number].1
                }
                Step::Each | Step::Names => node.each.get_or_insert_default(),
            };
        }
        if path.ends_with(&[Step::Names]) {
            return node.make_row(values);
        }
        node.is_entry = true;
        match node.leads_on() {
            true => Err("one entry is inside another".to_owned()),
            false => Ok(()),
        }
    }

    fn make_row(&mut self, values: &[Vec<Text>]) -> Result<(), String> {
        if !std::mem::replace(&mut self.is_row, true) {
            for value in values {
                let (first, below) = value.split_first().ok_or("an empty path")?;
                let number = self.key(first)?;
                self.values.push((number, below.to_vec()));
            }
        }
        Ok(())
    }

    /// Returns the number of a key, which is new if no path has it.
    fn key(&mut self, key: &Text) -> Result<usize, String> {
        let known = self.keys.iter().position(|(other, _)| other == key);
        if known.is_none() {
            if self.keys.len() == MAX_KEYS {
                return Err(format!("more than {MAX_KEYS} keys of one object"));
            }
            self.keys.push((key.clone(), Self::default()));
        }
        Ok(known.unwrap_or(self.keys.len() - 1))
    }

    /// Returns whether the value is an entry, or has entries.
    pub(crate) fn leads(&self) -> bool {
        self.is_entry || self.leads_on()
    }

    fn leads_on(&self) -> bool {
        self.each.is_some() || !self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::steps;
    use super::Node;

    #[test]
    fn paths_that_contradict_each_other_are_errors() {
        for (entries, values, is_good) in [
            ("email domain", "action", true),
            ("[].email", "action meta.score", true),
            ("{}", "action", true),
            ("a.b a.c[]", "", true),
            ("a.b a.c[].b", "d", true),
            ("[]", "", true),
            ("email", "email", true),
            ("[]", "action", false),
            ("a a.b", "", false),
            ("a.b a", "", false),
            ("a[] a.b", "", false),
            ("a{} a.b", "", false),
            ("a{} a[].b", "", false),
            ("a.b[]", "x[].y", false),
            ("a[].b", "c{}", false),
        ] {
            let read = |paths: &str| -> Vec<_> {
                let paths = paths.split_whitespace();
                paths.map(|path| steps(path).unwrap()).collect()
            };
            let tree = Node::new(&read(entries), &read(values));
            assert_eq!(tree.is_ok(), is_good, "{entries:?} {values:?}");
        }
    }
}
