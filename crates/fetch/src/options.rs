//! What to fetch, and what to publish: the options of the programs that are about that.

use std::path::PathBuf;

use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::numbers::with_unit;
use clap::Args;
use clap::builder::TypedValueParser as _;
use clap::value_parser;

use crate::manifest;
use crate::store::Access;

/// What to fetch.
#[derive(Clone, Debug, Args)]
pub struct Fetch {
    /// The store.
    #[arg(skip)]
    pub from: String,
    /// Name of the list.
    #[arg(long)]
    pub list: String,
    /// The publisher's public key: a file of minisign, or its line RW...
    #[arg(long, value_name = "KEY")]
    pub key: String,
    /// The filter file to update.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Name of this host, which determines its ring [default: the host name].
    #[arg(long, value_name = "NAME", default_value_t = host_name(), hide_default_value = true)]
    pub host: String,
    /// Refuse a filter that has lost more than this share of its entries, in percent, such as 20.
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u32).range(..=100))]
    pub max_shrink: Option<u32>,
    /// Refuse a filter that has grown by more than this share, in percent, such as 100.
    #[arg(long, value_name = "PERCENT")]
    pub max_growth: Option<u32>,
    /// The time, in seconds since 1970.
    #[arg(skip = now_s())]
    pub now: u64,
    /// How to access the store.
    #[arg(skip)]
    pub access: Access,
}

fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// What to publish.
#[derive(Clone, Debug, Args)]
pub struct Publish {
    /// The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. Only the hosts
    /// must be able to read it.
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// Name of the list; the filter must have been built with this name.
    #[arg(long)]
    pub list: String,
    /// The filter.
    #[arg(skip)]
    pub filter: PathBuf,
    /// A ring and its hosts, such as first=mx1,test-* or first=5%; may be repeated. A name without a dot matches a host in any
    /// domain. N% stands for this share of all hosts; a larger share contains the smaller ones.
    #[arg(id = "ring", long = "ring", value_name = "NAME=HOST,...", value_parser = ring)]
    pub rings: Vec<(String, Vec<String>)>,
    /// Give the filter only to this ring, until --promote gives it to the others.
    #[arg(long, value_name = "RING")]
    pub only: Option<String>,
    /// Give the filter only to the first --ring. After this time, such as 2h, give it to the next ring, and after the same time in
    /// the last one to all hosts. A later filter waits until the one before has left the first ring.
    #[arg(long = "promote-after", value_name = "TIME", value_parser = time, requires = "ring", conflicts_with_all = ["only", "all", "promote"])]
    pub promote_after_s: Option<u64>,
    /// Give the filter to all hosts, and forget the rings of the last publication that --ring does not name.
    #[arg(long, conflicts_with_all = ["only", "promote"])]
    pub all: bool,
    /// Read all files in the store, and replace damaged ones.
    #[arg(long, conflicts_with = "promote")]
    pub check_store: bool,
    /// For how many hours the new manifest is valid.
    #[arg(long = "valid", value_name = "HOURS", default_value = "48", value_parser = value_parser!(u64).range(1..=8760).map(|hours| hours * 3600))]
    pub valid_s: u64,
    /// How many deltas to keep: a host that was away for longer reads the whole file.
    #[arg(long, value_name = "N", default_value = "48", value_parser = value_parser!(u16).range(..=1000).map(usize::from))]
    pub keep: usize,
    /// Announce the public key that will replace the present one.
    #[arg(long, value_name = "KEY")]
    pub next_key: Option<String>,
    /// The previous public key, needed once after a change of keys.
    #[arg(long, value_name = "KEY")]
    pub previous_key: Option<String>,
    /// The time, in seconds since 1970.
    #[arg(skip = now_s())]
    pub now: u64,
    /// How to access the store.
    #[arg(skip)]
    pub access: Access,
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
    with_unit(text, &[('m', 60), ('h', 3600), ('d', 86_400)])
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "must be a time such as 90m, 2h or 1d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_times_are_read() {
        assert!(ring("first=mx1,test-*,*.eu.example,*").is_ok());
        let wrong = "first|=x|first=|first=mx1,|first=a*b|first=*a*|first=a, b|first=0%|first=x%";
        for wrong in wrong.split('|') {
            assert!(ring(wrong).is_err(), "{wrong}");
        }
        assert!(ring("first=5%,mx1").is_ok());
        assert_eq!(time("90m"), Ok(5_400));
        for wrong in "|2|0h|h|-1h|2w|99999999999999999999d|2é".split('|') {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
