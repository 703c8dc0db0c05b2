//! Both command lines.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use blocklist_compile::console::take_file_limits_as_errors;
use blocklist_filter::base::clock::now_s;
use clap::Parser;

use crate::keys::{self, Signer};
use crate::status::Run;
use crate::store::{Access, Login};
use crate::{Error, Fetch, Outcome, Publish};

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
    /// The filter.
    #[command(flatten)]
    fetch: Fetch,
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
    /// What to publish.
    #[command(flatten)]
    publish: Publish,
    /// The secret key, as minisign -G -W makes it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the password of the key in its first line.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
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
    /// The filter file.
    #[arg(required_unless_present = "promote")]
    filter: Option<PathBuf>,
    /// Print errors only.
    #[arg(short, long)]
    quiet: bool,
}

impl FetchCli {
    /// Runs the command.
    #[must_use]
    pub fn run(mut self) -> ExitCode {
        take_file_limits_as_errors();
        let wanted = &mut self.fetch;
        let (mut code, mut last) = (0, None);
        for from in &self.from {
            from.clone_into(&mut wanted.from);
            let done = fetch(wanted);
            match &done {
                Ok(outcome) if !self.quiet => {
                    let _ = writeln!(io::stdout(), "{}: {outcome}", wanted.output.display());
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
            host: &wanted.host,
            list: &wanted.list,
            filter: &wanted.output,
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
}

/// Fetches with a key that may be in a file, and with the login in the environment.
fn fetch(wanted: &Fetch) -> Result<Outcome, Error> {
    crate::fetch(&Fetch {
        key: keys::public_key(&wanted.key)?,
        now: now_s(),
        access: access()?,
        ..wanted.clone()
    })
}

impl PublishCli {
    /// Runs the command.
    #[must_use]
    pub fn run(self) -> ExitCode {
        take_file_limits_as_errors();
        // Filters contain the seed, so other users must not read them.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
        let quiet = self.quiet;
        match self.done() {
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

    fn done(self) -> Result<crate::Published, Error> {
        let password = self.password_file.as_deref().map(first_line).transpose()?;
        let signer = Signer::open(&self.key, password)?;
        let wanted = Publish {
            filter: self.filter.unwrap_or_default(),
            // After the password, which a person may have typed slowly.
            now: now_s(),
            access: access()?,
            ..self.publish
        };
        match self.promote {
            Some(ring) => crate::promote(&wanted, &ring, self.generation, &signer),
            None => crate::publish(&wanted, &signer),
        }
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
