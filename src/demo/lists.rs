//! The compiled lists of the demo, and their configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::base::paint::Paint;
use crate::compile::{self, Plan, Progress};
use crate::config::Config;
use crate::policy::Action;

/// Why the demo cannot run, for the person who wanted to see it.
pub(super) type Error = Box<dyn std::error::Error>;

/// The lists for which the demo's messages are written, in case there is no folder `blocklists`.
const SENDERS: &str = include_str!("../../blocklists/example-senders.txt");
const WHITELIST: &str = include_str!("../../blocklists/whitelist.txt");

/// The socket, in the folder of the demo.
pub(super) const MILTER: &str = "milter.sock";

/// A compiled list of the demo.
pub(super) struct Compiled {
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) filter: PathBuf,
    /// A listed domain, for use in a message.
    pub(super) domain: Option<String>,
}

pub(super) fn compile_lists(
    folder: &Path,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<Vec<Compiled>, Error> {
    let here = Path::new("blocklists");
    let mut senders = here.join("example-senders.txt");
    if !senders.is_file() {
        let copy = "the demo uses its built-in copy";
        writeln!(
            out,
            "no blocklists/example-senders.txt in this folder; {copy}"
        )?;
        senders = folder.join("example-senders.txt");
        fs::write(&senders, SENDERS)?;
    }
    let mut compile =
        |name, action, list: &Path| compile_list(name, action, list, folder, out, paint);
    let mut compiled = vec![compile("spammers", Action::Reject, &senders)?];
    let disposable = here.join("disposable-domains.txt");
    if disposable.is_file() {
        compiled.push(compile("disposable", Action::Tag, &disposable)?);
    }
    fs::write(folder.join("whitelist.txt"), WHITELIST)?;
    Ok(compiled)
}

fn compile_list(
    name: &'static str,
    action: Action,
    list: &Path,
    folder: &Path,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<Compiled, Error> {
    let filter = folder.join(format!("{name}.blf"));
    let began = Instant::now();
    let report = compile::build(&Plan::new(&filter, vec![list.to_owned()]), &Progress::new())?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    writeln!(
        out,
        "{} {}: {} entries in {ms:.0} ms, {} KiB",
        paint.bold("compiled"),
        list.display(),
        report.filter.map_or(0, |filter| filter.entries),
        fs::metadata(&filter)?.len().div_ceil(1024)
    )?;
    let text = fs::read_to_string(list)?;
    let domain = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned);
    Ok(Compiled {
        name,
        action,
        filter,
        domain,
    })
}

pub(super) fn write_config(folder: &Path, lists: &[Compiled]) -> Result<Config, Error> {
    let milter = folder.join(MILTER);
    let mut text = format!("listen = [\"unix:{}\"]\n", milter.display());
    for list in lists {
        let (name, filter, action) = (list.name, list.filter.display(), list.action);
        text += "[[list]]\n";
        text += &format!("name = \"{name}\"\nfilter = \"{filter}\"\naction = \"{action}\"\n");
    }
    text += "[whitelist]\nfiles = [\"whitelist.txt\"]\n[status]\nlisten = \"\"\n";
    Ok(Config::parse(&text, &folder.join("demo.toml"))?)
}
