//! What the lists and exemptions in effect want of a door that it cannot do: mail servers say and understand less at some.

use super::Snapshot;
use crate::endpoint::{Door, Extent};
use crate::policy::{Action, List};
use crate::sender::Identity;

impl Snapshot {
    /// Returns what is beyond these doors, with the consequence, one line each.
    pub fn beyond(&self, doors: &[Door]) -> Vec<String> {
        let doors = Door::ALL.into_iter().filter(|door| doors.contains(door));
        doors.flat_map(|door| self.beyond_door(door)).collect()
    }

    fn beyond_door(&self, door: Door) -> Vec<String> {
        let (at, sees, mut beyond) = (door.name(), door.sees(), Vec::new());
        let acts = |list: &&List| !list.terms.dry_run && list.terms.action > Action::Log;
        let lists: Vec<&List> = self.policy.lists().iter().filter(acts).collect();
        let mut say = |concerned: fn(&List) -> bool, what: &str| {
            let names = lists.iter().filter(|list| concerned(list));
            let names: Vec<&str> = names.map(|list| list.name()).collect();
            if !names.is_empty() {
                beyond.push(format!("{at}: {what} (list {})", names.join(", ")));
            }
        };
        let headers = |list: &List| {
            list.terms
                .check
                .iter()
                .any(|one| *one != Identity::MailFrom)
        };
        match sees.headers {
            Extent::Always => {}
            Extent::WithHeaders => say(
                headers,
                "if the mail server sends no headers (Postfix; Exim sends them), listed senders in them pass",
            ),
            Extent::Never => say(headers, "headers are not seen: listed senders in them pass"),
        }
        let exempt = &self.config.exempt;
        if !sees.recipients {
            let names = exempt.recipients.written().join(", ");
            if !names.is_empty() {
                say(
                    |_| true,
                    &format!("recipients are not seen: mail to {names} is not exempt"),
                );
            }
            say(
                |list| !list.terms.recipients.is_empty(),
                "recipients are not seen: a list with `recipients` does nothing",
            );
            say(
                |list| !list.terms.except_recipients.is_empty(),
                "recipients are not seen: `except_recipients` are not exempt",
            );
        }
        if !sees.client && (exempt.authenticated || !exempt.networks.is_empty()) {
            say(
                |_| true,
                "client and login are not seen: authenticated users and `networks` are not exempt",
            );
        }
        for list in &lists {
            let (name, action) = (list.name(), list.terms.action);
            let instead = match (action.at(door), action) {
                (Extent::Always, _) => continue,
                (Extent::WithHeaders, _) => {
                    "cannot be told to a mail server that sends no headers (Postfix; Exim sends them): such mail passes"
                }
                (Extent::Never, Action::Tempfail) => "cannot be told: such mail passes",
                (Extent::Never, _) => "cannot be told: such mail gets the score of a refusal",
            };
            beyond.push(format!("{at}: list {name}: action \"{action}\" {instead}"));
        }
        beyond
    }
}
