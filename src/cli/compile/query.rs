//! `query`: answers for a few addresses, or for any number of lines of standard input.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use super::args::QueryArgs;
use crate::base::clock::today;
use crate::base::day::Day;
use crate::cli::Done;
use crate::cli::output::{Output, success};
use crate::compile::Error;
use crate::filter::Load;
use crate::inspect::{Finding, Query};

/// Longest line of standard input, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Most bytes of one read. The answers to it are written together.
const READ_BYTES: usize = 256 << 10;

pub(super) fn query(args: &QueryArgs, out: &mut Output) -> Done {
    let many = args.addresses.iter().any(|address| address == "-");
    let load = if many { Load::Memory } else { Load::Disk };
    let mut query = Query::open(&args.file, load, Day(today()))?;
    let mut listed = false;
    for address in &args.addresses {
        if address == "-" {
            listed |= answer_lines(&mut query, io::stdin().lock(), args.json, out)?;
            continue;
        }
        let mut text = Vec::new();
        let finding = query.ask(address.as_encoded_bytes())?;
        // The null sender is no address either, but mail comes from it.
        if finding.canonical.is_none() && address != "<>" {
            let address = &finding.address;
            return Err(format!("{address}: neither an address nor an entry of a list").into());
        }
        listed |= finding.listed;
        put(&finding, args.json, &mut text);
        out.write_all(&text)?;
    }
    Ok(success(listed))
}

/// Answers each line that is not empty, in order. Returns whether an address is listed.
fn answer_lines(
    query: &mut Query,
    input: impl Read,
    json: bool,
    out: &mut impl Write,
) -> Result<bool, Box<dyn std::error::Error>> {
    let failed = || Error::io(Path::new("standard input"), "read");
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let (mut line, mut answers, mut listed) = (Vec::new(), Vec::new(), false);
    loop {
        // A user who types, or a program that asks and waits, gets the answer to each line before
        // the next one.
        if !input.buffer().contains(&b'\n') {
            out.write_all(&answers)?;
            out.flush()?;
            answers.clear();
        }
        line.clear();
        let mut rest = input.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        if rest.read_until(b'\n', &mut line).map_err(failed())? == 0 {
            break;
        }
        let text = line.trim_ascii();
        let finding = if line.len() > MAX_LINE_BYTES && !line.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(failed())?;
            Finding::too_long(text)
        } else if text.is_empty() {
            continue;
        } else {
            query.ask(text)?
        };
        listed |= finding.listed;
        put(&finding, json, &mut answers);
    }
    out.write_all(&answers)?;
    Ok(listed)
}

/// Appends the finding about one address, as lines.
fn put(finding: &Finding, json: bool, out: &mut Vec<u8>) {
    // Neither can fail: memory accepts every write, and each key of the object is a string.
    let _ = if json {
        serde_json::to_writer(&mut *out, finding).map_err(io::Error::from)
    } else {
        write!(out, "{finding}")
    };
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Plan, Progress, build};

    #[test]
    fn a_line_without_end_takes_no_memory_and_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list.txt");
        std::fs::write(&list, "a@b.example\n").unwrap();
        let plan = Plan::new(list.with_extension("blf"), vec![list]);
        build(&plan, &Progress::new()).unwrap();
        let mut query = Query::open(&plan.output, Load::Memory, Day(today())).unwrap();
        for length in [MAX_LINE_BYTES + 1, 3 * READ_BYTES] {
            let text = format!("{}\r\n\nA@b.example", "x".repeat(length));
            let mut out = Vec::new();
            let listed = answer_lines(&mut query, text.as_bytes(), false, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<_> = text.lines().collect();
            assert!(listed && lines.len() == 3, "{text}");
            assert!(lines[0].contains("xxx...: neither"), "{text}");
            assert_eq!(lines[1], "A@b.example: listed (as a@b.example)");
        }
    }
}
