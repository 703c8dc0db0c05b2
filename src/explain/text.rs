//! Shows an explanation as text for a terminal.

use std::fmt::{self, Display, Formatter};

use super::{Explanation, Lookup, Mail, Named, Recipient};
use crate::paint::{Paint, Painted};
use crate::undo::quoted;
use blocklist_filter::address::{escaped, shortened};

impl Display for Painted<'_, (&Mail, &Explanation)> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self((mail, of), paint) = *self;
        let decision = &of.decision;
        let verdict = paint.verdict(decision.verdict, 0);
        writeln!(f, "{}  {verdict}", paint.bold("verdict"))?;
        let list = decision.list.as_deref();
        let why = in_words(decision.reason, list, decision.unsoftened);
        writeln!(f, "{}   {why}", paint.bold("reason"))?;
        for line in decision.reply.iter().flat_map(|reply| reply.lines()) {
            writeln!(f, "{}    {line}", paint.bold("reply"))?;
        }
        for change in &of.changes {
            writeln!(f, "{}   {}", paint.bold("change"), brief(change))?;
        }
        for one in &of.recipients {
            recipient(f, one, of, paint)?;
        }
        for named in &of.identities {
            writeln!(f)?;
            sender(f, named, paint)?;
        }
        if of.identities.is_empty() {
            writeln!(f, "\nno sender found, nothing to look up")?;
        }
        if of.truncated {
            writeln!(f, "\nthe message names more senders than the milter keeps")?;
        }
        if mail.mail_from.is_none() {
            let hint = match mail.headers.envelope_sender() {
                Some(written) if written.len() <= SHOWN_BYTES => {
                    // Will be copied into a shell, and comes from an unknown sender.
                    let quoted = quoted(&escaped(written).to_string());
                    format!("; its Return-Path says --mail-from {quoted}")
                }
                _ => String::new(),
            };
            let text = format!("explained without an envelope sender{hint}");
            writeln!(f, "\n{}", paint.dim(&text))?;
        }
        Ok(())
    }
}

fn recipient(
    f: &mut Formatter<'_>,
    one: &Recipient,
    of: &Explanation,
    paint: Paint,
) -> fmt::Result {
    let why = if one.deferred {
        " (other lists apply to it than to the recipients before it: mixed_recipients)"
    } else if one.exempt {
        " (no list applies to this recipient)"
    } else {
        ""
    };
    let (rcpt, written) = (paint.bold("rcpt"), brief(&one.recipient));
    writeln!(f, "{rcpt}     {written}: {}{why}", one.verdict)?;
    // The reply for all recipients was already shown above.
    let reply = one.reply.iter().filter(|_| one.reply != of.decision.reply);
    for line in reply.flat_map(|reply| reply.lines()) {
        writeln!(f, "         {}", paint.dim(line))?;
    }
    Ok(())
}

/// Returns the reason of a decision in words, given the deciding list and the action that it would have taken.
pub(crate) fn in_words(reason: &str, list: Option<&str>, unsoftened: Option<&str>) -> String {
    let name = list.unwrap_or("?");
    let wanted = unsoftened.unwrap_or("reject");
    let listed = format!("a sender is on the list {name}");
    match reason {
        "listed" => listed,
        "unlisted" => "no sender is on a list".to_owned(),
        "whitelisted" => format!("{listed}, but it is whitelisted"),
        "exempt-recipient" => {
            format!("{listed}, but the list applies to none of the accepted recipients")
        }
        "mixed-recipients" => format!(
            "{listed} ({wanted}), but some recipients are exempt, and all recipients get the same answer"
        ),
        "mailing-list" => {
            format!("{listed} ({wanted}); milder action for a mailing list (mailing_list)")
        }
        "weak-address" => format!(
            "a sender on the list {name} ({wanted}) is only in a name, comment or encoded word, or only some mail programs show it (weak)"
        ),
        "dry-run" => format!("{listed} ({wanted}), which is in dry_run"),
        "log-only" => format!("{listed}, which only logs"),
        "max-reject-share" => {
            format!("{listed} ({wanted}); tagged instead because max_reject_share is exceeded")
        }
        "undecided" if list.is_none() => {
            "the message names more senders than the milter looks up (on_error applies)".to_owned()
        }
        "undecided" => format!("cannot read the filter of list {name} (on_error applies)"),
        "authenticated" => "the client is authenticated".to_owned(),
        "local" => "the mail was submitted on this machine".to_owned(),
        "network" => "the client is in an exempt network".to_owned(),
        other => other.to_owned(),
    }
}

/// Most bytes shown of text from unknown senders: a few lines of a terminal.
const SHOWN_BYTES: usize = 256;

fn brief(text: &str) -> String {
    shortened(text.as_bytes(), SHOWN_BYTES)
}

fn sender(f: &mut Formatter<'_>, named: &Named, paint: Paint) -> fmt::Result {
    let (identity, address) = (paint.bold(named.identity), brief(&named.address));
    write!(f, "{identity}  {address}")?;
    match (&named.canonical, &named.fault) {
        (Some(canonical), _) if *canonical != named.address => {
            write!(f, "  = {}", brief(canonical))?;
        }
        (None, Some(fault)) => write!(f, "  {}", paint.dim(fault))?,
        _ => {}
    }
    let weak = if named.doubtful {
        "  (weak: some mail programs show it, others the address next to it)"
    } else if named.weak {
        "  (weak: only in a name, comment or encoded word)"
    } else {
        ""
    };
    writeln!(f, "{weak}")?;
    let widest = |width: fn(&Lookup) -> usize| named.lookups.iter().map(width).max();
    let width = widest(|lookup| lookup.entry.chars().count());
    let width = width.unwrap_or(0).min(50);
    let list_width = widest(|lookup| lookup.list.len()).unwrap_or(0);
    for lookup in &named.lookups {
        let (list, kind, entry) = (&lookup.list, lookup.kind, brief(&lookup.entry));
        write!(f, "  {list:<list_width$}  {kind:<10}  {entry:<width$}  ")?;
        writeln!(f, "{}", outcome(lookup, paint))?;
    }
    if named.lookups.is_empty() && named.canonical.is_some() {
        writeln!(f, "  {}", paint.dim("no list checks this"))?;
    }
    match &named.whitelist_entry {
        Some(entry) if named.unaligned => {
            let why = "but no trusted DKIM result confirms the address: not exempt";
            writeln!(f, "  whitelist has {}, {why}", brief(entry))
        }
        Some(entry) if named.not_exempt => {
            let why = "but a list that names it does not exempt correspondents";
            writeln!(f, "  {} is a correspondent, {why}", brief(entry))
        }
        Some(entry) => {
            let (whitelisted, entry) = (paint.verdict("whitelisted", 0), brief(entry));
            writeln!(f, "  {whitelisted} by {entry}: this address is exempt")
        }
        None => Ok(()),
    }
}

fn outcome(lookup: &Lookup, paint: Paint) -> String {
    let mut text = match lookup.outcome {
        "miss" => return paint.dim("not listed"),
        "false-positive" => {
            return "matches the Bloom filter, but has no record: not listed".to_owned();
        }
        "unproved" => {
            let listed = paint.alarm("LISTED");
            return format!(
                "{listed} matches the Bloom filter; there are no records to confirm it"
            );
        }
        "failed" => {
            let failure = lookup.failure.as_deref().unwrap_or("");
            return format!("cannot be read: {failure}");
        }
        "expired" => "expired".to_owned(),
        _ => paint.alarm("LISTED"),
    };
    for (what, value) in [
        ("source", &lookup.source),
        ("added", &lookup.added),
        ("until", &lookup.expires),
    ] {
        if let Some(value) = value {
            text.push_str(&format!(", {what} {value}"));
        }
    }
    if let Some(line) = &lookup.line {
        text.push_str(&format!("\n      {line}"));
    }
    text
}
