//! The paths of a declaration, joined to a tree that is walked while JSON is read.
//!
//! ```text
//!   entry = "items[].email"             items -> [] -> email: an entry
//!   when = { type = ..., "meta.x" }          |  \-> type: value 0
//!                                            |   \-> meta -> x: value 1
//!                                            a row: the object that holds the entry
//! ```

use super::path::Step;
use super::text::Text;

/// The most keys of one object that may be declared: one bit each.
pub(crate) const MAX_KEYS: usize = 64;

/// The number of a node.
pub(crate) type NodeId = usize;

/// The node of a document.
pub(crate) const ROOT: NodeId = 0;

/// A place in a document that some path passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// The keys of an object, and where they lead.
    pub(crate) keys: Vec<(Text, NodeId)>,
    /// Where the elements of an array lead, or the values of an object.
    pub(crate) each: Option<NodeId>,
    /// Whether the keys of an object are entries. Their values are at `each`.
    pub(crate) has_names: bool,
    /// Whether the value is an entry.
    pub(crate) is_entry: bool,
    /// Whether an object here holds entries, so that it is a row.
    pub(crate) is_row: bool,
    /// The value is one of a row: the node of the row, and the number of the value.
    pub(crate) value: Option<(NodeId, usize)>,
    /// Whether a path to an entry passes.
    pub(crate) leads: bool,
}

/// The nodes of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    value_count: usize,
}

impl Tree {
    /// Returns the tree of paths to entries, and of paths from the object that holds an entry to
    /// the values of the row.
    ///
    /// # Errors
    /// Paths that contradict each other.
    pub(crate) fn new(entries: &[Vec<Step>], values: &[Vec<Step>]) -> Result<Self, String> {
        let mut tree = Self {
            nodes: vec![Node {
                leads: true,
                ..Node::default()
            }],
            value_count: values.len(),
        };
        for path in entries {
            let row = tree.add_entry(path)?;
            let Some(row) = row else {
                if values.is_empty() {
                    continue;
                }
                return Err("no object holds the entry, so it has no other values".to_owned());
            };
            for (number, value) in values.iter().enumerate() {
                if value.iter().any(|step| !matches!(step, Step::Key(_))) {
                    return Err(
                        "[] and {} lead to more than one value of a row; they can only be in entry"
                            .to_owned(),
                    );
                }
                let at = tree.walk(row, value, false)?;
                if tree
                    .nodes
                    .get(at)
                    .is_some_and(|node| node.leads && !node.is_entry)
                {
                    return Err("a column leads on to the entry".to_owned());
                }
                if let Some(node) = tree.nodes.get_mut(at) {
                    node.value = Some((row, number));
                }
            }
        }
        Ok(tree)
    }

    /// Returns a node.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        // Ids come from this tree; its root is always there.
        self.nodes.get(id).unwrap_or(&self.nodes[ROOT])
    }

    /// Returns the number of values of a row.
    pub(crate) fn value_count(&self) -> usize {
        self.value_count
    }

    /// Adds the path of an entry; returns the node of the object that holds it, if there is one.
    fn add_entry(&mut self, path: &[Step]) -> Result<Option<NodeId>, String> {
        if let [before @ .., Step::Names] = path {
            let map = self.walk(ROOT, before, true)?;
            let each = self.step(map, &Step::Each, true)?;
            self.mark(map, |node| node.has_names = true);
            self.mark(each, |node| node.is_row = true);
            return Ok(Some(each));
        }
        let at = self.walk(ROOT, path, true)?;
        self.mark(at, |node| node.is_entry = true);
        let node = self.node(at);
        if node.each.is_some() || !node.keys.is_empty() {
            return Err("one entry is inside another".to_owned());
        }
        let Some(last_key) = path.iter().rposition(|step| matches!(step, Step::Key(_))) else {
            return Ok(None);
        };
        let row = self.walk(ROOT, path.get(..last_key).unwrap_or_default(), true)?;
        self.mark(row, |node| node.is_row = true);
        Ok(Some(row))
    }

    fn mark(&mut self, at: NodeId, mark: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at) {
            mark(node);
        }
    }

    fn walk(&mut self, from: NodeId, path: &[Step], leads: bool) -> Result<NodeId, String> {
        path.iter()
            .try_fold(from, |at, step| self.step(at, step, leads))
    }

    /// Returns the node behind a step, which is new if no path has taken it.
    fn step(&mut self, from: NodeId, step: &Step, leads: bool) -> Result<NodeId, String> {
        let new = self.nodes.len();
        let node = self.nodes.get_mut(from).ok_or("no such node")?;
        if node.is_entry && leads {
            return Err("one entry is inside another".to_owned());
        }
        let at = match step {
            Step::Key(key) => {
                let key = Text::new(key);
                let known = node.keys.iter().find(|(other, _)| *other == key);
                let at = known.map_or(new, |(_, at)| *at);
                if node.keys.len() == MAX_KEYS {
                    return Err(format!("more than {MAX_KEYS} keys of one object"));
                }
                if at == new {
                    node.keys.push((key, new));
                }
                at
            }
            Step::Each | Step::Names => *node.each.get_or_insert(new),
        };
        if node.each.is_some() && !node.keys.is_empty() || node.has_names {
            return Err("two paths go through the same object in different ways".to_owned());
        }
        if at == new {
            self.nodes.push(Node::default());
        }
        self.mark(at, |node| node.leads |= leads);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::steps;
    use super::Tree;

    #[test]
    fn paths_that_contradict_each_other_are_errors() {
        let tree = |entries: &[&str], values: &[&str]| {
            let read = |paths: &[&str]| {
                paths
                    .iter()
                    .map(|path| steps(path).unwrap())
                    .collect::<Vec<_>>()
            };
            Tree::new(&read(entries), &read(values))
        };
        for (entries, values) in [
            (&["email", "domain"][..], &["action"][..]),
            (&["[].email"], &["action", "meta.score"]),
            (&["{}"], &["action"]),
            (&["a.b", "a.c[]"], &[]),
            (&["[]"], &[]),
            (&["email"], &["email"]),
        ] {
            assert!(tree(entries, values).is_ok(), "{entries:?} {values:?}");
        }
        for (entries, values) in [
            (&["[]"][..], &["action"][..]),
            (&["a", "a.b"], &[]),
            (&["a.b", "a"], &[]),
            (&["a[]", "a.b"], &[]),
            (&["a{}", "a.b"], &[]),
            (&["a{}", "a[].b"], &[]),
            (&["a.b[]"], &["x[].y"]),
            (&["a[].b"], &["c{}"]),
            (&["a.b.c", "a.d"], &["b"]),
        ] {
            assert!(tree(entries, values).is_err(), "{entries:?} {values:?}");
        }
    }
}
