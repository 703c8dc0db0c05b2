//! `query`: answers for a few addresses, or for any number from standard input.
//!
//! Standard input is answered block by block. A block is the result of one read, up to its last
//! newline, and is divided among all processors: so they work on a file, and a user who types, or a
//! program that asks and waits, gets the answer to each line before the next one.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::args::QueryArgs;
use crate::compile::Error;
use crate::console::{Done, Output, success};
use crate::inspect::{Finding, Query};
use blocklist_filter::address::MAX_WRITTEN_BYTES;
use blocklist_filter::base::clock::today;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::parallel::{line_parts, on_threads};
use blocklist_filter::filter::Load;

/// Most bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// A thread for fewer bytes is not worth its cost.
const MIN_PART_BYTES: usize = 8 << 10;

pub(super) fn query(args: &QueryArgs, out: &mut Output) -> Done {
    let many = args.addresses.iter().any(|address| address == "-");
    let load = if many { Load::Memory } else { Load::Disk };
    let mut query = Query::open(&args.file, load, Day(today()))?;
    let mut listed = false;
    for address in &args.addresses {
        if address == "-" {
            listed |= all_of_stdin(&query, args.json, out)?;
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

/// Answers every line of standard input, in order.
fn all_of_stdin(
    query: &Query,
    json: bool,
    out: &mut impl Write,
) -> Result<bool, Box<dyn std::error::Error>> {
    let mut input = BufReader::with_capacity(READ_BYTES, io::stdin().lock());
    let mut listed = false;
    let failed = || Error::io(Path::new("standard input"), "read");
    while let Some(block) = next_block(&mut input).map_err(failed())? {
        let answers = on_threads(line_parts(&block, MIN_PART_BYTES), |part| {
            answer(&mut query.clone(), part, json)
        });
        for answer in answers {
            let (text, any) = answer?;
            listed |= any;
            out.write_all(&text)?;
        }
        out.flush()?;
    }
    Ok(listed)
}

/// Answers each non-empty line. Returns the output, and whether an address is listed.
fn answer(query: &mut Query, block: &[u8], json: bool) -> Result<(Vec<u8>, bool), Error> {
    let mut out = Vec::with_capacity(4 * block.len());
    let mut listed = false;
    for line in block.split(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        // Whatever is left between blanks of a line that was cut, the line is no address.
        let is_cut = line.len() > MAX_WRITTEN_BYTES;
        let finding = query.ask(if is_cut { line } else { text })?;
        listed |= finding.listed;
        put(&finding, json, &mut out);
    }
    Ok((out, listed))
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

/// Returns the next whole lines, those of one read if possible; `None` at the end. Of a line that is too long, it
/// keeps enough to detect the length.
fn next_block(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut block = Vec::new();
    loop {
        let read = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read.is_empty() {
            return Ok((!block.is_empty()).then_some(block));
        }
        let last_line = memchr::memrchr(b'\n', read);
        let count = last_line.map_or(read.len(), |at| at + 1);
        block.extend_from_slice(&read[..count]);
        input.consume(count);
        if last_line.is_some() {
            return Ok(Some(block));
        }
        block.truncate(MAX_WRITTEN_BYTES + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_takes_no_memory_and_is_one_line() {
        for length in [MAX_WRITTEN_BYTES + 1, 5 * READ_BYTES, 5 << 20] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\na@b.example\n");
            let mut input = BufReader::with_capacity(READ_BYTES, text.as_slice());
            let blocks = std::iter::from_fn(|| next_block(&mut input).unwrap());
            let blocks = blocks.collect::<Vec<_>>().concat();
            let most = MAX_WRITTEN_BYTES + READ_BYTES + 1;
            assert!(blocks.len() <= most, "{length}");
            let lines: Vec<_> = blocks.split(|byte| *byte == b'\n').collect();
            assert_eq!(lines.len(), 3);
            assert!(lines[0].len() > MAX_WRITTEN_BYTES && lines[1] == b"a@b.example");
        }
    }
}
