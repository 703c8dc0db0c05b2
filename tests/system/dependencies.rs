//! Checks licences and sources of all dependencies against `deny.toml`, as cargo-deny does, for
//! those who have not installed it. Checking advisories needs its database, so only cargo-deny can
//! do it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::root;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn table(file: &str) -> toml::Table {
    fs::read_to_string(root(file)).unwrap().parse().unwrap()
}

/// Returns all packages that are built here, including those for tests.
fn packages() -> Vec<Value> {
    let compiler = Command::new("rustc").arg("-vV").output().unwrap();
    let compiler = String::from_utf8(compiler.stdout).unwrap();
    let mut lines = compiler.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    let done = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        // Packages for other platforms may not have been downloaded.
        .args(["--filter-platform", host.unwrap()])
        .current_dir(root(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&done.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns whether these licences satisfy a licence expression (SPDX): whether there is an allowed
/// one in each part that is needed together with others. This never allows too much: whoever may
/// choose from each such part satisfies the whole, however it is nested. `/` is the old notation of
/// OR.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let is_allowed = |name: &str| {
        let name = name.trim_matches(['(', ')', ' ']);
        allowed.iter().any(|allowed| allowed == name)
    };
    let flat = expression.replace('/', " OR ");
    let mut parts = flat.split(" AND ");
    parts.all(|part| part.split(" OR ").any(is_allowed))
}

#[test]
fn expressions_are_read_as_spdx_has_them() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned()];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("MIT/GPL-3.0-only", true),
        ("MIT AND GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT AND Apache-2.0", true),
        ("(GPL-3.0-only OR MIT) AND Zlib", false),
        ("Apache-2.0 WITH LLVM-exception OR Zlib", false),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR Zlib", true),
    ] {
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }
}

/// Fails if any licence in `deny.toml` is replaced by another.
#[test]
fn licences_and_sources_are_those_of_deny_toml() {
    let deny = table("deny.toml");
    let allowed = deny["licenses"]["allow"].as_array().unwrap().iter();
    let allowed = allowed.map(|name| name.as_str().unwrap().to_owned());
    let allowed: Vec<_> = allowed.collect();
    let packages = packages();
    assert!(packages.len() > 100);
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_met(licence, &allowed), "{name}: {licence}");
        match package["source"].as_str() {
            Some(source) => assert_eq!(source, REGISTRY, "{name}"),
            None => assert!(
                name.starts_with("blocklist-"),
                "{name}: from another folder"
            ),
        }
    }
}

/// Cargo checks each download against it.
#[test]
fn every_dependency_has_a_checksum() {
    for file in ["Cargo.lock", "fuzz/Cargo.lock"] {
        for package in table(file)["package"].as_array().unwrap() {
            let name = package["name"].as_str().unwrap();
            let is_ours = package.get("source").is_none() && name.starts_with("blocklist-");
            let has_sum = package.get("checksum").is_some();
            assert!(is_ours || has_sum, "{file}: {name}");
        }
    }
}
