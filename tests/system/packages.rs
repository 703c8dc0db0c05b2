//! The content of the packages: every file that `contrib/install` installs is in the .deb and in
//! the .rpm, where the distribution searches it. `tests/debian` tests the .deb itself.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::markdown::{read, root};
use support::{Said, Scratch, below, has, rows};
use toml::Value;

/// The folder into which `contrib/package` installs before it packs.
const STAGE: &str = "target/package";

/// The programs that are built apart.
pub(crate) const FETCH: [&str; 2] = ["blocklist-fetch", "blocklist-publish"];

/// Returns the files below `/`, as `contrib/install` installs them for a package.
fn installed() -> BTreeSet<String> {
    installed_with(&FETCH)
}

/// Returns the same, if these programs were built too.
fn installed_with(built_apart: &[&str]) -> BTreeSet<String> {
    paths("/usr", built_apart, |path| !path.is_dir())
}

/// Returns the wanted files and folders below `/`, as `contrib/install` installs them.
pub(crate) fn paths(
    prefix: &str,
    built_apart: &[&str],
    is_wanted: fn(&Path) -> bool,
) -> BTreeSet<String> {
    let scratch = Scratch::new();
    let place = install(&scratch, prefix, built_apart);
    let name = |path: PathBuf| {
        let name = path.strip_prefix(&place).expect("below it");
        name.to_string_lossy().into_owned()
    };
    let paths = below(&place).into_iter().filter(|path| is_wanted(path));
    paths.map(name).collect()
}

/// Installs, and returns the folder that stands for `/`.
fn install(scratch: &Scratch, prefix: &str, built_apart: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    fs::create_dir(scratch.at("built")).expect("our own folder");
    let programs = programs.parent().expect("in a folder");
    let built = scratch.at("built/release");
    fs::create_dir(&built).expect("our own folder");
    for program in ["blocklist-milter", "blocklist-compile"] {
        symlink(programs.join(program), built.join(program)).expect("our own folder");
    }
    // Any program will do for these.
    for program in built_apart {
        symlink(programs.join("blocklist-compile"), built.join(program)).expect("our own folder");
    }
    support::run(installer(scratch).env("PREFIX", prefix));
    scratch.at("root")
}

/// Returns the script that installs the programs in `built` to `root`.
fn installer(scratch: &Scratch) -> Command {
    let mut install = Command::new(root().join("contrib/install"));
    install
        .arg("--postfix")
        .env("CARGO_TARGET_DIR", scratch.at("built"));
    install.env("DESTDIR", scratch.at("root"));
    install
}

/// What is installed names its own paths, and its links lead to files that are installed, too.
#[test]
fn installed_texts_name_what_is_installed() {
    let scratch = Scratch::new();
    let mut links = 0;
    for path in below(&install(&scratch, "/usr", &[])) {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        assert!(!text.contains("/usr/local"), "{}", path.display());
        if path.extension().is_some_and(|ending| ending == "md") {
            for link in text.split("](").skip(1) {
                let target = link.split([')', '#']).next().unwrap_or_default();
                let file = path.with_file_name(target);
                let is_there = target.is_empty() || target.contains("://") || file.exists();
                assert!(is_there, "{}: {target}", path.display());
                links += 1;
            }
        }
    }
    assert!(links > 50, "only {links} links");
}

/// Returns source, destination and mode of each asset of a package.
fn assets(package: &str) -> Vec<(String, String, String)> {
    let manifest: Value = toml::from_str(&read(Path::new("Cargo.toml"))).expect("TOML");
    let assets = &manifest["package"]["metadata"][package]["assets"];
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let asset = |asset: &Value| match asset {
        Value::Array(fields) => (text(&fields[0]), text(&fields[1]), text(&fields[2])),
        _ => (
            text(&asset["source"]),
            text(&asset["dest"]).trim_start_matches('/').to_owned(),
            text(&asset["mode"]),
        ),
    };
    let assets = assets.as_array().expect("a list");
    assets.iter().map(asset).collect()
}

/// Returns whether a pattern with at most one `*` matches this path.
fn names(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((head, tail)) => path
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail))
            .is_some_and(|name| !name.contains('/')),
    }
}

/// Returns the place and mode in a package of each installed file.
fn packed(package: &str) -> Vec<(String, String, String)> {
    let assets = assets(package);
    let place = |file: &String| {
        let staged = format!("{STAGE}/{file}");
        let (_, dest, mode) = assets
            .iter()
            .find(|(source, _, _)| names(source, &staged))
            .unwrap_or_else(|| panic!("{file} is in no asset of {package} in Cargo.toml"));
        let name = file.rsplit('/').next().expect("a name");
        (file.clone(), format!("{dest}{name}"), mode.clone())
    };
    installed().iter().map(place).collect()
}

#[test]
fn every_installed_file_is_in_the_packages() {
    for package in ["deb", "generate-rpm"] {
        let packed = packed(package);
        assert!(packed.len() > 40, "only {} files", packed.len());
        for (file, dest, mode) in packed {
            let is_read = file.ends_with(".conf") || file.contains("/exim/");
            let runs =
                file.contains("bin/") || (file.contains("lib/blocklist-milter/") && !is_read);
            assert_eq!(mode, if runs { "755" } else { "644" }, "{package}: {file}");
            // Debian's zsh reads the completions of packages from a special folder.
            let expected = match package {
                "deb" => file.replace("zsh/site-functions", "zsh/vendor-completions"),
                _ => file,
            };
            assert_eq!(dest, expected, "{package}");
        }
    }
}

/// The completions are where each shell of the distribution searches.
#[test]
fn completions_are_where_the_shells_look() {
    for (package, zsh) in [
        ("deb", "vendor-completions"),
        ("generate-rpm", "site-functions"),
    ] {
        let places: BTreeSet<String> = packed(package).into_iter().map(|file| file.1).collect();
        let programs = "blocklist-milter blocklist-compile blocklist-fetch blocklist-publish";
        for program in programs.split(' ') {
            for place in [
                format!("bash-completion/completions/{program}"),
                format!("zsh/{zsh}/_{program}"),
                format!("fish/vendor_completions.d/{program}.fish"),
            ] {
                let is_there = places.contains(&format!("usr/share/{place}"));
                assert!(is_there, "{package}: {place}");
            }
        }
    }
}

/// A missing program is reported with the command that builds it, and nothing is installed.
#[test]
fn a_missing_program_is_named_with_its_command() {
    let scratch = Scratch::new();
    let built = scratch.at("built/release");
    fs::create_dir_all(&built).expect("our own folder");
    let some = Path::new(env!("CARGO_BIN_EXE_blocklist-compile"));
    for [there, missing] in rows(
        "
        blocklist-compile | blocklist-milter: run cargo build --release first
        blocklist-milter  |
        blocklist-fetch   | blocklist-publish: run cargo build --release -p blocklist-fetch first
        ",
    ) {
        symlink(some, built.join(there)).expect("our own folder");
        if missing.is_empty() {
            continue;
        }
        let said = Said::of(&mut installer(&scratch));
        assert_ne!(said.code, Some(0));
        has(&said.err, missing);
        assert!(!scratch.at("root").exists());
    }
}

/// The programs that use the network are installed with everything that belongs to them, or not at
/// all.
#[test]
fn what_fetches_is_whole() {
    let installed = installed();
    for file in [
        "bin/blocklist-fetch",
        "bin/blocklist-publish",
        "lib/systemd/system/blocklist-fetch@.service",
        "lib/systemd/system/blocklist-fetch@.timer",
        "share/man/man1/blocklist-fetch.1",
        "share/man/man1/blocklist-publish.1",
    ] {
        assert!(installed.contains(&format!("usr/{file}")), "{file}");
    }
    let without = installed_with(&[]);
    let of_fetch = |file: &String| file.contains("fetch") || file.contains("publish");
    assert!(!without.iter().any(of_fetch), "{without:?}");
    assert_eq!(without.len() + 12, installed.len());
}

/// Both packages stop the same units before removal, and restart the same units after an upgrade.
#[test]
fn both_packages_stop_and_restart_the_same_units() {
    let manifest: Value = toml::from_str(&read(&root().join("Cargo.toml"))).expect("a manifest");
    let rpm = &manifest["package"]["metadata"]["generate-rpm"];
    // The units in the commands `systemctl VERB`, which may have several lines.
    let units = |script: &str, verb: &str| -> BTreeSet<String> {
        let joined = script.replace("\\\n", " ");
        let commands = joined.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| matches!(word, "systemctl" | "deb-systemd-invoke"))
                && words.any(|word| word == verb)
        });
        commands
            .flat_map(str::split_whitespace)
            .map(|word| word.trim_matches(|sign| matches!(sign, '\'' | '"')))
            .filter(|word| word.starts_with("blocklist-"))
            .map(str::to_owned)
            .collect()
    };
    for (verb, deb, key) in [
        ("stop", "prerm", "pre_uninstall_script"),
        ("restart", "postinst", "post_install_script"),
        ("try-restart", "postinst", "post_install_script"),
    ] {
        let expected = units(&read(&root().join("contrib/debian").join(deb)), verb);
        assert!(!expected.is_empty(), "{verb}");
        assert_eq!(units(rpm[key].as_str().expect("a script"), verb), expected);
    }
}

/// Every asset still has a file.
#[test]
fn every_asset_exists() {
    let installed = installed();
    for package in ["deb", "generate-rpm"] {
        for (source, _, _) in assets(package) {
            let exists = match source.strip_prefix(&format!("{STAGE}/")) {
                Some(pattern) => installed.iter().any(|file| names(pattern, file)),
                None => {
                    let path = root().join(&source);
                    let folder = path.parent().expect("a file");
                    let pattern = path.file_name().expect("a name").to_string_lossy();
                    let mut files = fs::read_dir(folder).expect("the folder is there").flatten();
                    files.any(|file| names(&pattern, &file.file_name().to_string_lossy()))
                }
            };
            assert!(exists, "{package}: {source}");
        }
    }
}
