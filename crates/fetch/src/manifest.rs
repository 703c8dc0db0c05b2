//! The manifest: the published filters and deltas of a list. It is signed as a whole, and parsed only after the signature
//! was verified.

use std::collections::HashMap;

use blocklist_filter::filter::{Digest, Header};
use blocklist_filter::lookup;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Version of the manifest that this program writes and reads.
pub const FORMAT: u32 = 1;

/// Longest manifest in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// How many deltas a host applies at most: it opens all of them at once. Before that, their bytes decide.
pub const MAX_CHAIN: usize = 200;

/// The published filters and deltas of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the list and of its filters.
    pub list: String,
    /// Rises with each manifest of the list, and is never lower than `made`.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
    /// The key that will sign later manifests, as minisign writes it.
    pub next_key: Option<String>,
    /// The filter for all hosts that are in no ring.
    pub filter: Full,
    /// Groups of hosts with their own filter. If several rings name a host, the first one counts.
    pub rings: Vec<Ring>,
    /// The available deltas.
    pub deltas: Vec<Delta>,
}

/// A whole filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {
    /// SHA-256 of its header page, in hexadecimal.
    pub identity: String,
    /// SHA-256 of the file, in hexadecimal; the file is named after it.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
    /// Its entries.
    pub entries: u64,
    /// Its generation.
    pub generation: u64,
    /// The version of the address rules that it was compiled with.
    pub rules_version: u16,
    /// Bits of the options of these rules.
    pub rules: u8,
    /// Bits of the kinds of entries in it.
    pub kinds: u8,
}

impl Full {
    /// Describes a filter with this header and this SHA-256.
    #[must_use]
    pub fn new(header: &Header, sha256: String) -> Self {
        Self {
            identity: header.identity().to_string(),
            sha256,
            bytes: header.file_bytes(),
            entries: header.entries,
            generation: header.spec.generation,
            rules_version: header.spec.rules_version,
            rules: header.spec.rules,
            kinds: header.spec.kinds,
        }
    }

    /// Whether the daemon of this version can look addresses up in it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        lookup::understood(self.rules_version, self.rules, self.kinds).is_some()
    }
}

/// A group of hosts with its own filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// Its name.
    pub name: String,
    /// Names of hosts, in upper or lower case; `*` at the beginning or the end stands for anything. A name without a dot is also
    /// that of a host in any domain: some systems give their full name as host name, and others do not. `N%` stands for this
    /// share of all hosts, chosen by a hash of the name: they are the same for each list, and among those of a larger share.
    pub hosts: Vec<String>,
    /// Their filter.
    pub filter: Full,
    /// Since when they have it, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
}

/// A delta from one filter to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// Identity of the old filter.
    pub old: String,
    /// Identity of the new one.
    pub new: String,
    /// SHA-256 of the file, in hexadecimal; the file is named after it.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
}

impl Manifest {
    /// Parses a manifest whose signature was verified.
    ///
    /// # Errors
    /// It belongs to another list, or is not a manifest of this version.
    pub fn read(bytes: &[u8], list: &str) -> Result<Self, Error> {
        let refused = |why: String| Error::Refused(format!("{list}.json: {why}"));
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| {
            refused(format!(
                "not a manifest that this program knows ({error}): update blocklist-fetch"
            ))
        })?;
        if manifest.format != FORMAT {
            return Err(refused(format!(
                "version {}, but this program reads {FORMAT}: update blocklist-fetch",
                manifest.format
            )));
        }
        if manifest.list != list {
            let other = &manifest.list;
            return Err(refused(format!("it is the manifest of the list {other}")));
        }
        let names = manifest.files().map(|(name, _)| name);
        let identities = manifest.filters().map(|full| full.identity.as_str());
        if !names.chain(identities).all(is_digest) {
            return Err(refused("a digest in it is none".to_owned()));
        }
        Ok(manifest)
    }

    /// All filters.
    pub fn filters(&self) -> impl Iterator<Item = &Full> {
        std::iter::once(&self.filter).chain(self.rings.iter().map(|ring| &ring.filter))
    }

    /// All files, each with its SHA-256 and file name extension.
    pub fn files(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let full = self.filters().map(|full| (full.sha256.as_str(), "blf"));
        full.chain(
            self.deltas
                .iter()
                .map(|delta| (delta.sha256.as_str(), "delta")),
        )
    }

    /// The filter of a host, and its ring, if it is in one.
    #[must_use]
    pub fn of_host(&self, host: &str) -> (&Full, Option<&str>) {
        let ring = self.rings.iter().find(|ring| ring.names(host));
        ring.map_or((&self.filter, None), |ring| {
            (&ring.filter, Some(ring.name.as_str()))
        })
    }

    /// The smallest chain of deltas, in bytes, from one identity to another; `None` if it has more than [`MAX_CHAIN`]
    /// deltas.
    #[must_use]
    pub fn chain(&self, from: &str, to: &str) -> Option<Vec<&Delta>> {
        let mut reached: HashMap<&str, (u64, Option<&Delta>)> = HashMap::from([(from, (0, None))]);
        // Deltas are published in the order of a chain, so that the second pass rarely finds anything.
        let mut is_shorter = true;
        while std::mem::take(&mut is_shorter) {
            for delta in &self.deltas {
                let Some((bytes, _)) = reached.get(delta.old.as_str()) else {
                    continue;
                };
                let bytes = delta.bytes.saturating_add(*bytes);
                let known = reached.get(delta.new.as_str());
                if known.is_none_or(|known| bytes < known.0) {
                    reached.insert(&delta.new, (bytes, Some(delta)));
                    is_shorter = true;
                }
            }
        }
        let mut chain = Vec::new();
        let mut at = to;
        while let Some(delta) = reached.get(at)?.1 {
            chain.push(delta);
            at = &delta.old;
        }
        chain.reverse();
        (1..=MAX_CHAIN).contains(&chain.len()).then_some(chain)
    }
}

impl Ring {
    fn names(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let label = host.split('.').next().unwrap_or_default();
        self.hosts.iter().any(|pattern| {
            if let Some(percent) = percent(pattern) {
                return hundredth(&host) < percent;
            }
            let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
            matches(&pattern, &host) || !pattern.contains('.') && matches(&pattern, label)
        })
    }
}

/// The number in `N%`.
#[must_use]
pub fn percent(pattern: &str) -> Option<u8> {
    let number = pattern.strip_suffix('%')?.parse().ok()?;
    (1..=100).contains(&number).then_some(number)
}

/// A number below 100 for a host, always the same.
fn hundredth(host: &str) -> u8 {
    let Digest(bytes) = Digest::of(host.as_bytes());
    let number = bytes.first_chunk().copied().map(u64::from_be_bytes);
    let number = u128::from(number.unwrap_or_default());
    u8::try_from((number * 100) >> 64).unwrap_or(u8::MAX)
}

fn matches(pattern: &str, host: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => host.ends_with(end),
        (None, Some(start)) => host.starts_with(start),
        (None, None) => host == pattern,
    }
}

/// Whether a text is a digest. File names are made from digests, so no other text is allowed.
fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Name of a manifest in the store.
#[must_use]
pub fn name(list: &str) -> String {
    format!("{list}.json")
}

/// Name of a file in the store.
#[must_use]
pub fn file_name(list: &str, sha256: &str, ending: &str) -> String {
    format!("{list}/{sha256}.{ending}")
}

/// Whether a file in the folder of a list may have been named by [`file_name`].
#[must_use]
pub fn is_file_name(name: &str) -> bool {
    let parts = name.split_once('.');
    parts.is_some_and(|(digest, ending)| {
        is_digest(digest) && matches!(ending, "blf" | "delta" | "minisig")
    })
}

/// Name of the signature of these bytes of a manifest. It contains their SHA-256, so a signature always matches its manifest,
/// although the two files cannot be written in one step.
#[must_use]
pub fn signature_name(list: &str, bytes: &[u8]) -> String {
    file_name(list, &Digest::of(bytes).to_string(), "minisig")
}

/// # Errors
/// The name is not allowed in a store.
pub fn check_list_name(list: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=100).contains(&list.len()) && list.bytes().all(plain) && !list.starts_with('.') {
        return Ok(());
    }
    Err(Error::Settings(format!(
        "--list {list}: must be letters, digits, - and _"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Full {
        Full {
            identity: "0".repeat(64),
            sha256: "1".repeat(64),
            bytes: 1_000,
            entries: 1,
            generation: 1,
            rules_version: 1,
            rules: 0,
            kinds: 1,
        }
    }

    fn manifest(deltas: &[(&str, &str, u64)]) -> Manifest {
        let delta = |&(old, new, bytes): &(&str, &str, u64)| Delta {
            old: old.to_owned(),
            new: new.to_owned(),
            sha256: "2".repeat(64),
            bytes,
        };
        Manifest {
            format: FORMAT,
            list: "spammers".to_owned(),
            number: 1,
            made: 0,
            expires: 0,
            next_key: None,
            filter: full(),
            rings: Vec::new(),
            deltas: deltas.iter().map(delta).collect(),
        }
    }

    #[test]
    fn the_cheapest_chain_is_found() {
        let manifest = manifest(&[
            ("a", "b", 10),
            ("b", "c", 10),
            ("a", "c", 30),
            ("c", "a", 1),
            ("c", "d", 5),
        ]);
        let chain = |from, to| {
            let chain = manifest.chain(from, to)?;
            Some(chain.iter().map(|delta| delta.bytes).collect::<Vec<_>>())
        };
        assert_eq!(chain("a", "c"), Some(vec![10, 10]));
        assert_eq!(chain("a", "d"), Some(vec![10, 10, 5]));
        assert_eq!(chain("b", "a"), Some(vec![10, 1]));
        assert_eq!(chain("d", "a"), None);
        assert_eq!(chain("a", "a"), None);
    }

    #[test]
    fn a_chain_has_a_limit() {
        let names: Vec<String> = (0..MAX_CHAIN + 2).map(|i| i.to_string()).collect();
        let deltas: Vec<_> = names
            .windows(2)
            .map(|pair| (pair[0].as_str(), pair[1].as_str(), 1))
            .collect();
        let manifest = manifest(&deltas);
        let last = MAX_CHAIN.to_string();
        let chain = manifest.chain("0", &last).map(|chain| chain.len());
        assert_eq!(chain, Some(MAX_CHAIN));
        let behind = (MAX_CHAIN + 1).to_string();
        assert!(manifest.chain("0", &behind).is_none());
    }

    /// As many deltas as fit into the largest manifest.
    #[test]
    fn a_chain_is_found_among_thousands_of_deltas() {
        let names: Vec<String> = (0..4_000).map(|n| format!("{n:064}")).collect();
        let mut deltas: Vec<_> = (0..3_999)
            .map(|n| (names[n].as_str(), names[n + 1].as_str(), 10))
            .collect();
        deltas.extend((0..3_000).map(|n| (names[0].as_str(), names[n].as_str(), 1_000)));
        let started = std::time::Instant::now();
        let chain = manifest(&deltas);
        let chain = chain.chain(&names[0], &names[3_005]).expect("there is one");
        assert_eq!(chain.iter().map(|delta| delta.bytes).sum::<u64>(), 1_060);
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    #[test]
    fn rings_name_hosts() {
        let mut manifest = manifest(&[]);
        let ring = |name: &str, hosts: &[&str]| Ring {
            name: name.to_owned(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            filter: full(),
            since: 0,
        };
        manifest.rings = vec![
            ring("first", &["mx1", "test-*"]),
            ring("second", &["*.EU.example", "mx7.us.example"]),
            ring("third", &["*-lab"]),
        ];
        for (host, expected) in [
            ("mx1", Some("first")),
            ("MX1", Some("first")),
            ("mx1.us.example", Some("first")),
            ("test-9", Some("first")),
            ("a.eu.example", Some("second")),
            ("mx7.US.example.", Some("second")),
            ("mail-lab.us.example", Some("third")),
            ("mx7", None),
            ("mx10", None),
            ("us.mx1", None),
            ("mx1-us.example", None),
        ] {
            assert_eq!(manifest.of_host(host).1, expected, "{host}");
        }
    }

    #[test]
    fn a_share_of_all_hosts_is_a_ring() {
        let ring = |hosts: &str| Ring {
            name: "first".to_owned(),
            hosts: vec![hosts.to_owned()],
            filter: full(),
            since: 0,
        };
        let hosts: Vec<String> = (0..10_000).map(|n| format!("mx{n}.your.example")).collect();
        let (five, twenty) = (ring("5%"), ring("20%"));
        let of_five: Vec<_> = hosts.iter().filter(|host| five.names(host)).collect();
        assert!((450..550).contains(&of_five.len()), "{}", of_five.len());
        assert!(of_five.iter().all(|host| twenty.names(host)));
        assert!(
            of_five
                .iter()
                .all(|host| five.names(&format!("{}.", host.to_uppercase())))
        );
        assert!(hosts.iter().all(|host| ring("100%").names(host)));
        for none in ["0%", "101%", "%", "-1%", "5 %"] {
            assert_eq!(percent(none), None, "{none}");
        }
    }

    #[test]
    fn what_could_name_other_files_is_refused() {
        let mut manifest = manifest(&[]);
        manifest.filter.sha256 = "../../../etc/passwd".to_owned();
        let bytes = serde_json::to_vec(&manifest).expect("plain data");
        let error = Manifest::read(&bytes, "spammers").expect_err("no digest");
        assert!(error.to_string().contains("digest"), "{error}");
        for name in ["", "../x", ".x", "a/b", "a b"] {
            assert!(check_list_name(name).is_err(), "{name}");
        }
        assert!(check_list_name("spammers-2.eu").is_ok());
    }
}
