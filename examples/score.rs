//! Plays the spelled senders of `tests/senders/corpus.txt` against a milter, ours or another.
//!
//! ```sh
//! cargo run --example score                                      # prints the entries: list these in the filter
//! cargo run --example score -- unix:/run/blocklist-milter/milter.sock
//! ```
//!
//! The filter must refuse listed senders, in the envelope and in every sender field. The client is 192.0.2.25, the
//! recipient <user@mail.example>. Prints how many rows it refused, and those that it judged in another way than the
//! corpus; weak rows have no right answer. Exit status: 0 none, 1 some.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use blocklist_milter::demo::peer::{Answer, Change, Peer, TestMail};
use blocklist_milter::explain::Headers;

#[path = "../tests/support/corpus.rs"]
mod corpus;

use corpus::Verdict;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let rows = corpus::rows();
    let Some(socket) = std::env::args().nth(1) else {
        println!("{}", corpus::entries(&rows).join("\n"));
        return Ok(ExitCode::SUCCESS);
    };
    let mut peer = Peer::connect(&socket.parse()?)?;
    peer.stranger()?;
    let mut table = BTreeMap::<_, [usize; 2]>::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let mail = TestMail {
            mail_from: row.mail_from.clone(),
            recipients: vec![b"<user@mail.example>".to_vec()],
            headers: Headers::read(&*row.message())?.fields,
            ..TestMail::default()
        };
        let done = peer.deliver(&mail)?;
        let mut answers = done.recipients.iter().chain(&done.message);
        let is_refused = answers.any(|answer| answer.refuses() || *answer == Answer::Discard)
            || done
                .changes
                .iter()
                .any(|change| matches!(change, Change::Quarantined(_)));
        let (verdict, is_wrong) = match row.verdict {
            Verdict::Found => ("found", !is_refused),
            Verdict::Weak => ("weak", false),
            Verdict::No => ("no", is_refused),
        };
        let field = if row.field.is_empty() {
            "MAIL"
        } else {
            row.field
        };
        let counts = table.entry((verdict, field)).or_default();
        counts[0] += 1;
        counts[1] += usize::from(is_refused);
        if is_wrong {
            wrong.push(row.text);
        }
    }
    peer.quit()?;
    println!("verdict  field                    rows  refused");
    for ((verdict, field), [all, refused]) in table {
        println!("{verdict:8} {field:24} {all:4}  {refused:7}");
    }
    println!("\njudged in another way: {}", wrong.len());
    for text in &wrong {
        println!("{text}");
    }
    Ok(ExitCode::from(u8::from(!wrong.is_empty())))
}
