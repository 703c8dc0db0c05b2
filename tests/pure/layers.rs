//! Checks the map in the `lib.rs` of each crate: modules import only from the rows above their own, and each
//! foreign crate that belongs to one layer is used there only. Cargo checks what a crate may use of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::support::{below, root};

/// The crates whose maps are checked.
const OWN_CRATES: [&str; 3] = ["crates/filter/src", "crates/compile/src", "src"];

/// Foreign crates, and the only places that may name them.
const CRATES: [(&str, &[&str]); 12] = [
    ("tokio", &["src/daemon/"]),
    ("hyper", &["src/daemon/http.rs"]),
    ("httparse", &["src/door/rspamd.rs"]),
    ("landlock", &["src/daemon/confine.rs"]),
    ("libc", &["src/daemon/calls.rs"]),
    ("seccompiler", &["src/daemon/calls.rs"]),
    ("tracing_subscriber", &["src/daemon/logging.rs"]),
    (
        "mail_parser",
        &[
            "src/sender/header.rs",
            "src/sender/encoded.rs",
            "crates/compile/src/list/table/text",
        ],
    ),
    ("idna", &["crates/filter/src/address/"]),
    (
        "clap",
        &[
            "src/cli/",
            "crates/compile/src/cli/",
            "crates/compile/src/console.rs",
        ],
    ),
    ("sha2", &["crates/filter/src/filter/digest.rs"]),
    ("toml", &["crates/compile/src/settings/", "src/config/"]),
];

/// Returns the rows of the map of a crate: the modules of each.
fn layers(of: &str) -> Vec<Vec<String>> {
    let map = fs::read_to_string(root(of).join("lib.rs")).unwrap();
    let lines = map
        .lines()
        .skip_while(|line| !line.starts_with("//! | modules |"));
    let rows = lines.skip(2).map_while(|line| line.strip_prefix("//! | "));
    let modules = |row: &str| {
        let cell = row.split(" | ").next().unwrap();
        let names = cell.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    };
    rows.map(modules).collect()
}

#[test]
fn the_map_has_every_module_once() {
    for of in OWN_CRATES {
        let mut mapped: Vec<String> = layers(of).concat();
        mapped.sort();
        let files = sources(of);
        let mut modules: Vec<&str> = files
            .iter()
            .map(|(file, _)| file.split(['/', '.']).next().unwrap())
            .filter(|module| !["lib", "main", "bin"].contains(module))
            .collect();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(mapped, modules, "{of}");
    }
}

/// Returns every source file of a crate: its path below `src/`, and its code without comments.
fn sources(of: &str) -> Vec<(String, String)> {
    let src = root(of);
    let source = |path: PathBuf| {
        path.extension().filter(|extension| *extension == "rs")?;
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<_> = text.lines().filter(is_code).collect();
        Some((name.to_owned(), code.join("\n")))
    };
    below(&src).into_iter().filter_map(source).collect()
}

/// Returns the module name at the start of a text; empty if there is none.
fn name(text: &str) -> &str {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

#[test]
fn modules_import_only_from_below() {
    let imports = OWN_CRATES.map(imports_from_below).into_iter().sum::<u32>();
    assert!(imports > 50, "only {imports} imports were seen");
}

/// Checks the imports of a crate, and counts them.
fn imports_from_below(of: &str) -> u32 {
    let layers = layers(of);
    let layer = |module: &str| {
        let has_it = |modules: &Vec<String>| modules.iter().any(|name| name == module);
        let layer = layers.iter().position(has_it);
        layer.unwrap_or_else(|| panic!("`{module}` is not in the map"))
    };
    let mut imports = 0;
    for (file, code) in sources(of) {
        let module = file.split(['/', '.']).next().unwrap();
        if ["lib", "main", "bin"].contains(&module) {
            continue;
        }
        let is_grouped = code.contains("crate::{");
        assert!(!is_grouped, "{of}/{file}: one `use crate::` a module");
        for import in code.split("crate::").skip(1).map(name) {
            imports += 1;
            let is_below = import == module || layer(import) < layer(module);
            let why = format!("{of}/{file} imports `{import}`, which is not below `{module}`");
            assert!(is_below, "{why}");
        }
    }
    imports
}

/// A module: its path below `src/`, without `.rs` and `/mod.rs`.
type Module = Vec<String>;

/// The imports of the files of a crate, by module.
struct Imports {
    /// Modules that are files or folders.
    modules: BTreeMap<Module, String>,
    /// Re-exports of a module: a name, and the path for which it stands.
    handed_on: BTreeMap<(Module, String), Module>,
}

impl Imports {
    fn read(of: &str) -> Self {
        let modules = sources(of)
            .into_iter()
            .map(|(file, code)| {
                // Unit tests may import their neighbours.
                let code = code.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
                let path = file.strip_suffix(".rs").unwrap();
                let path = path.strip_suffix("/mod").unwrap_or(path);
                (path.split('/').map(str::to_owned).collect(), code)
            })
            .collect();
        let mut imports = Self {
            modules,
            handed_on: BTreeMap::new(),
        };
        for (module, code) in &imports.modules {
            for (path, _) in uses(code).into_iter().filter(|(_, is_public)| *is_public) {
                if let Some(path) = imports.absolute(module, &path) {
                    let name = path.last().unwrap().clone();
                    imports.handed_on.insert((module.clone(), name), path);
                }
            }
        }
        imports
    }

    /// Returns a path in a module as a path from the root; `None` if it leads to another crate.
    fn absolute(&self, module: &[String], path: &str) -> Option<Module> {
        let parts: Module = path.split("::").map(str::to_owned).collect();
        let supers = parts.iter().take_while(|part| *part == "super").count();
        let (base, skipped) = match parts[0].as_str() {
            "crate" => (&[][..], 1),
            "self" => (module, 1),
            "super" => (&module[..module.len() - supers], supers),
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.modules.get(&child).map(|_| (module, 0))?
            }
        };
        Some([base, &parts[skipped..]].concat())
    }

    /// Returns the module that has the item of a path.
    fn home(&self, path: &Module) -> Module {
        let mut module = Module::new();
        for (at, part) in path.iter().enumerate() {
            let child = [module.as_slice(), std::slice::from_ref(part)].concat();
            if self.modules.contains_key(&child) {
                module = child;
            } else if let Some(other) = self.handed_on.get(&(module.clone(), part.clone())) {
                return self.home(&[other.as_slice(), &path[at + 1..]].concat());
            } else {
                break;
            }
        }
        module
    }

    /// Returns every module whose items the code of `module` uses, except for re-exports.
    fn of(&self, module: &Module) -> Vec<Module> {
        let code = &self.modules[module];
        let declares = |line: &&str| {
            let line = line.trim_start_matches("pub").trim_start_matches("(crate)");
            line.trim_start().starts_with("mod ")
        };
        let own: String = code
            .split_inclusive(';')
            .filter(|statement| !hands_on(statement))
            .flat_map(|statement| statement.split_inclusive('\n'))
            .filter(|line| !declares(line))
            .collect();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let words: BTreeSet<&str> = own.split(|c| !is_word(c)).collect();
        let is_used = |path: &str| words.contains(path.rsplit("::").next().unwrap());
        let paths = uses(code).into_iter();
        let paths = paths.filter(|(path, is_public)| !is_public || is_used(path));
        let named = own.split(|c| !(is_word(c) || c == ':'));
        let named = named.filter(|path| path.contains("::")).map(str::to_owned);
        let paths = paths.map(|(path, _)| path).chain(named);
        let homes = paths.filter_map(|path| Some(self.home(&self.absolute(module, &path)?)));
        homes
            .filter(|home| !home.is_empty() && home != module)
            .collect()
    }
}

/// Returns whether a statement is a public `use`.
fn hands_on(statement: &str) -> bool {
    let line = statement.rsplit_once("use ").map(|(before, _)| before);
    line.is_some_and(|before| before.rsplit('\n').next().unwrap().starts_with("pub"))
}

/// Returns the paths in every `use` in `code`, with braces expanded, and whether each is public.
pub(super) fn uses(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some((before, tree)) = statement.rsplit_once("use ") else {
            continue;
        };
        let before = before.rsplit('\n').next().unwrap().trim();
        let is_path = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_:{},*".contains(c);
        if tree.chars().all(is_path) && (before.is_empty() || before.starts_with("pub")) {
            let mut paths = Vec::new();
            take_apart("", &tree.split_whitespace().collect::<String>(), &mut paths);
            found.extend(paths.into_iter().map(|path| (path, !before.is_empty())));
        }
    }
    found
}

/// Expands `a::{b, c::{d, e}}` to `a::b`, `a::c::d`, `a::c::e`.
fn take_apart(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        return paths.push(format!("{before}{tree}"));
    };
    let inner = rest.strip_suffix('}').unwrap();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if start < at {
                    take_apart(&format!("{before}{head}"), &inner[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The name of a folder's `mod.rs` among the files of the folder.
const OWN: &str = "mod";

/// Files and folders in the same folder do not import each other in a circle. The folder's `mod.rs`
/// is one of them: modules that it uses do not use its definitions.
#[test]
fn no_folder_has_a_circle() {
    let folders = OWN_CRATES.map(folders_of).into_iter().sum::<usize>();
    assert!(folders > 10, "only {folders} folders were seen");
}

/// Checks the folders of a crate, and counts them.
fn folders_of(of: &str) -> usize {
    let imports = Imports::read(of);
    let mut folders: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for module in imports.modules.keys() {
        for other in imports.of(module) {
            let pairs = module.iter().zip(&other);
            let shared = pairs.take_while(|(a, b)| a == b).count();
            let at = |module: &Module| module.get(shared).map_or(OWN, String::as_str).to_owned();
            let folder = folders.entry(module[..shared].to_vec()).or_default();
            folder.entry(at(module)).or_default().insert(at(&other));
        }
    }
    let count = folders.len();
    let mut circles = Vec::new();
    for (folder, arrows) in &folders {
        for start in arrows.keys() {
            let mut seen = BTreeSet::new();
            let mut open: Vec<&String> = arrows[start].iter().collect();
            while let Some(name) = open.pop() {
                if seen.insert(name) {
                    open.extend(arrows.get(name).into_iter().flatten());
                }
            }
            if seen.contains(start) {
                circles.push(format!("{}/{start}", folder.join("/")));
            }
        }
    }
    assert!(circles.is_empty(), "{of}, in a circle: {circles:#?}");
    count
}

#[test]
fn crates_stay_in_their_layer() {
    let files = OWN_CRATES.map(|of| {
        let files = sources(of).into_iter();
        files.map(move |(file, code)| (format!("{of}/{file}"), code))
    });
    let files: Vec<_> = files.into_iter().flatten().collect();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for (name, places) in CRATES {
        let named = format!("{name}::");
        let mut count = 0;
        for (file, code) in &files {
            let mut found = code.match_indices(&named);
            if found.any(|(at, _)| !code[..at].ends_with(is_path)) {
                count += 1;
                let is_here = places.iter().any(|place| file.starts_with(place));
                assert!(is_here, "{file} names `{name}`, of {places:?}");
            }
        }
        assert!(count > 0, "no file names `{name}`");
    }
}

#[test]
fn each_dependency_has_a_reason() {
    let manifests = ["", "crates/filter", "crates/compile", "crates/fetch"];
    let manifests = manifests.map(|of| fs::read_to_string(root(of).join("Cargo.toml")).unwrap());
    let manifest = manifests.join("\n");
    let mut dependencies = 0;
    for part in manifest.split("\n[") {
        let (heading, lines) = part.split_once(']').unwrap();
        if !heading.ends_with("dependencies") {
            continue;
        }
        for line in lines.lines().filter(|line| line.contains(" = ")) {
            dependencies += 1;
            let reason = line.split_once("# ").map(|(_, reason)| reason.trim());
            let is_given = reason.is_some_and(|reason| !reason.is_empty());
            assert!(is_given, "no reason: {line}");
        }
    }
    assert!(dependencies > 60, "only {dependencies} were seen");
}
