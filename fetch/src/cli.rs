//! Both command lines.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use blocklist_milter::base::clock::now_s;
use blocklist_milter::cli::take_file_limits_as_errors;
use clap::Parser;

use crate::keys::{self, Signer};
use crate::manifest;
use crate::status::Run;
use crate::store::{Access, Login};
use crate::{Error, Fetch, Outcome, Promote, Publish};

const FETCH: &str = "blocklist-fetch";
const PUBLISH: &str = "blocklist-publish";

/// The environment variable with user and password for a web server.
const LOGIN: &str = "STORE_LOGIN";

const FETCH_EXAMPLES: &str = "\
Example:
  blocklist-fetch --from https://lists.your.example/mail --list spammers --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 \\
    --max-shrink 20 -o /var/lib/blocklist-milter/spammers.blf";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  blocklist-publish --to /srv/lists --list spammers --key publisher.key spammers.blf
  blocklist-publish --to s3://your-bucket/mail --list spammers --key publisher.key --ring first=mx1,mx2 --only first spammers.blf
  blocklist-publish --to s3://your-bucket/mail --list spammers --key publisher.key --promote first";

/// Updates a filter of blocklist-milter from a signed store.
///
/// Exit code 0: the filter is up to date; 1: refused, or the store has had nothing new for too long; 2: failed. In case of
/// an error, the present filter stays.
#[derive(Debug, Parser)]
#[command(name = "blocklist-fetch", version, max_term_width = 100, after_long_help = FETCH_EXAMPLES)]
pub struct FetchCli {
    /// The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. The login for a web
    /// server, USER:PASSWORD, is read from the environment variable STORE_LOGIN.
    ///
    /// Several stores are mirrors: the next one is used if one fails. If a mirror cannot be trusted, the exit code is 1 even if
    /// the next one has brought the filter.
    #[arg(long, value_name = "STORE", required = true, num_args = 1..)]
    from: Vec<String>,
    /// Name of the list.
    #[arg(long)]
    list: String,
    /// The publisher's public key: a file of minisign, or its line RW...
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The filter file to update.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of this host, which determines its ring [default: the host name].
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Refuse a filter that has lost more than this share of its entries, in percent, such as 20.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=100))]
    max_shrink: Option<u32>,
    /// Refuse a filter that has grown by more than this share, in percent, such as 100.
    #[arg(long, value_name = "PERCENT")]
    max_growth: Option<u32>,
    /// Write the generation, the age and the last error to this file: a line for people, and metrics for the textfile collector
    /// of node_exporter.
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Print errors only.
    #[arg(short, long)]
    quiet: bool,
}

/// Publishes a filter of blocklist-milter with deltas and a signature, for blocklist-fetch.
///
/// Publish again before the manifest expires, even if nothing has changed: otherwise the hosts report an error.
#[derive(Debug, Parser)]
#[command(name = "blocklist-publish", version, max_term_width = 100, after_long_help = PUBLISH_EXAMPLES)]
pub struct PublishCli {
    /// The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. Only the hosts
    /// must be able to read it.
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Name of the list; the filter must have been built with this name.
    #[arg(long)]
    list: String,
    /// The secret key, as minisign -G -W makes it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the password of the key in its first line.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A ring and its hosts, such as first=mx1,test-* or first=5%; may be repeated. A name without a dot matches a host in any
    /// domain. N% stands for this share of all hosts; a larger share contains the smaller ones.
    #[arg(long, value_name = "NAME=HOST,...", value_parser = ring)]
    ring: Vec<(String, Vec<String>)>,
    /// Give the filter only to this ring, until --promote gives it to the others.
    #[arg(long, value_name = "RING")]
    only: Option<String>,
    /// Give the filter only to the first --ring. After this time, such as 2h, give it to the next ring, and after the same time in
    /// the last one to all hosts. A later filter waits until the one before has left the first ring.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "ring", conflicts_with_all = ["only", "all", "promote"])]
    promote_after: Option<u64>,
    /// Give the filter to all hosts, and forget the rings of the last publication that --ring does not name.
    #[arg(long, conflicts_with_all = ["only", "promote"])]
    all: bool,
    /// Read all files in the store, and replace damaged ones.
    #[arg(long, conflicts_with = "promote")]
    check_store: bool,
    /// Publish no file; give the filter of this ring to all hosts, or to the ring of --only. The rings and their hosts do
    /// not change.
    ///
    /// If --only names the same ring, only the time for which the manifest is valid changes.
    #[arg(long, value_name = "RING", conflicts_with_all = ["filter", "ring", "keep"])]
    promote: Option<String>,
    /// With --promote: refuse if the ring has another generation. This protects against a publication in between, and
    /// against somebody who restores an older manifest.
    #[arg(long, value_name = "N", requires = "promote")]
    generation: Option<u64>,
    /// For how many hours the new manifest is valid.
    #[arg(long, value_name = "HOURS", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=8760))]
    valid: u64,
    /// How many deltas to keep: a host that was away for longer reads the whole file.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u16).range(..=1000))]
    keep: u16,
    /// Announce the public key that will replace the present one.
    #[arg(long, value_name = "KEY")]
    next_key: Option<String>,
    /// The previous public key, needed once after a change of keys.
    #[arg(long, value_name = "KEY")]
    previous_key: Option<String>,
    /// The filter file.
    #[arg(required_unless_present = "promote")]
    filter: Option<PathBuf>,
    /// Print errors only.
    #[arg(short, long)]
    quiet: bool,
}

fn ring(text: &str) -> Result<(String, Vec<String>), String> {
    let parts = text.split_once('=');
    let parts = parts.filter(|(name, _)| !name.is_empty());
    let (name, hosts) = parts.ok_or("must be NAME=HOST,HOST,...")?;
    let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    for host in &hosts {
        let inner = host
            .strip_prefix('*')
            .or_else(|| host.strip_suffix('*'))
            .unwrap_or(host);
        if host.ends_with('%') && manifest::percent(host).is_none() {
            return Err(format!("{host:?}: must be 1% to 100%"));
        }
        if host.is_empty() || inner.contains('*') || host.contains(char::is_whitespace) {
            return Err(format!(
                "{host:?}: a host is a name without blanks, with at most one * at its beginning or end"
            ));
        }
    }
    Ok((name.to_owned(), hosts))
}

/// Parses a time such as 90m, 2h or 1d. Returns seconds.
fn time(text: &str) -> Result<u64, String> {
    let unit = match text.chars().next_back() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "must be a time such as 90m, 2h or 1d".to_owned())
}

impl FetchCli {
    /// Runs the command.
    #[must_use]
    pub fn run(mut self) -> ExitCode {
        take_file_limits_as_errors();
        let host = self.host.take().unwrap_or_else(|| {
            let system = rustix::system::uname();
            system.nodename().to_string_lossy().into_owned()
        });
        let (mut code, mut last) = (0, None);
        for from in &self.from {
            let done = self.fetch(from, &host);
            match &done {
                Ok(outcome) if !self.quiet => {
                    let _ = writeln!(io::stdout(), "{}: {outcome}", self.output.display());
                }
                Ok(_) => {}
                Err(error) => {
                    complain(FETCH, error);
                    last = Some(error.to_string());
                }
            }
            // An alarm stays one, even if a mirror helps.
            code = match (code, &done) {
                (1, _) => 1,
                (_, Ok(_)) => 0,
                (_, Err(error)) => error.code(),
            };
            if !matches!(
                done,
                Err(Error::Store { .. } | Error::Refused(_) | Error::Frozen(_))
            ) {
                break;
            }
        }
        let run = Run {
            host: &host,
            list: &self.list,
            filter: &self.output,
            now: now_s(),
            code,
            error: last.as_deref(),
        };
        if let Some(Err(error)) = self.status.as_deref().map(|path| run.write(path)) {
            complain(FETCH, &error);
            code = if code == 0 { error.code() } else { code };
        }
        code.into()
    }

    fn fetch(&self, from: &str, host: &str) -> Result<Outcome, Error> {
        crate::fetch(&Fetch {
            key: keys::public_key(&self.key)?,
            from: from.to_owned(),
            list: self.list.clone(),
            output: self.output.clone(),
            host: host.to_owned(),
            max_shrink: self.max_shrink,
            max_growth: self.max_growth,
            now: now_s(),
            access: access()?,
        })
    }
}

impl PublishCli {
    /// Runs the command.
    #[must_use]
    pub fn run(self) -> ExitCode {
        take_file_limits_as_errors();
        // Filters contain the seed, so other users must not read them.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
        let quiet = self.quiet;
        match self.publish() {
            Ok(published) => {
                // Shown even with --quiet, because a timer may run this, and somebody must see the warnings.
                for warning in &published.warnings {
                    complain(PUBLISH, warning);
                }
                if !quiet {
                    let _ = writeln!(io::stdout(), "{published}");
                }
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(PUBLISH, &error);
                error.code().into()
            }
        }
    }

    fn publish(self) -> Result<crate::Published, Error> {
        let password = self.password_file.as_deref().map(first_line).transpose()?;
        let signer = Signer::open(&self.key, password)?;
        let valid_s = self.valid * 3600;
        if let Some(ring) = self.promote {
            let wanted = Promote {
                to: self.to,
                list: self.list,
                ring,
                generation: self.generation,
                only: self.only,
                valid_s,
                next_key: self.next_key,
                previous_key: self.previous_key,
                now: now_s(),
                access: access()?,
            };
            return crate::promote(&wanted, &signer);
        }
        let wanted = Publish {
            to: self.to,
            list: self.list,
            filter: self.filter.expect("required without --promote"),
            rings: self.ring,
            only: self.only,
            promote_after_s: self.promote_after,
            all: self.all,
            check_store: self.check_store,
            valid_s,
            keep: self.keep.into(),
            next_key: self.next_key,
            previous_key: self.previous_key,
            now: now_s(),
            access: access()?,
        };
        crate::publish(&wanted, &signer)
    }
}

/// The login comes from the environment, like the keys of S3, because other users can read command lines.
fn access() -> Result<Access, Error> {
    let login = std::env::var(LOGIN).ok().map(|login| Login::new(&login));
    Ok(Access {
        login: login.transpose()?,
        ..Access::default()
    })
}

fn first_line(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).map_err(Error::io(path, "read"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Prints a line to standard error. `eprintln` would panic if that is a full disk.
fn complain(program: &str, what: &dyn Display) {
    let _ = writeln!(io::stderr(), "{program}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_hold_together() {
        FetchCli::command().debug_assert();
        PublishCli::command().debug_assert();
        assert!(ring("first=mx1,test-*,*.eu.example,*").is_ok());
        for wrong in [
            "first",
            "=x",
            "first=",
            "first=mx1,",
            "first=a*b",
            "first=*a*",
            "first=a, b",
            "first=0%",
            "first=x%",
        ] {
            assert!(ring(wrong).is_err(), "{wrong}");
        }
        assert!(ring("first=5%,mx1").is_ok());
        assert_eq!(time("90m"), Ok(5_400));
        for wrong in [
            "",
            "2",
            "0h",
            "h",
            "-1h",
            "2w",
            "99999999999999999999d",
            "2é",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
