//! The configuration: errors with their positions, and the example that explains every setting.

use std::path::Path;

use blocklist_milter::config::{Config, Error, settings};

use crate::support::{has, root, rows};

const EXAMPLE: &str = include_str!("../../contrib/blocklist-milter.toml");

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(text, Path::new("/etc/x.toml")).map_err(|error| match error {
        Error::Faulty { problems, .. } => problems.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    })
}

/// Returns the problems in a faulty configuration; those of a table, begin and words, are all of them.
fn faulty(text: &str, table: &'static str) -> Vec<String> {
    let problems = parse(text).unwrap_err();
    let expected = rows(table);
    for [place, message] in &expected {
        let is_told = |p: &String| p.starts_with(place) && p.contains(message);
        assert!(
            problems.iter().any(is_told),
            "{place} {message} is missing in {problems:#?}"
        );
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    problems
}

/// Checks rows of a configuration, and begin and words of its only problem.
fn each_has_one_fault(table: &'static str) {
    for [text, place, message] in rows(table) {
        let problems = parse(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with(place), "{text}: {problems:?}");
        has(&problems[0], message);
    }
}

#[test]
fn the_example_shows_every_setting_with_its_default() {
    let example = parse(EXAMPLE).unwrap().to_string();
    let bare = parse(
        "[[list]]\nname = \"spammers\"\nfilter = \"/var/lib/blocklist-milter/spammers.blf\"\n",
    )
    .unwrap();
    assert_eq!(example, bare.to_string());
    for (section, name) in settings() {
        let heading = match section {
            "" => String::new(),
            "list" => "\n[[list]]\n".to_owned(),
            _ => format!("\n[{section}]\n"),
        };
        let start = EXAMPLE
            .find(&heading)
            .unwrap_or_else(|| panic!("the example lacks {heading}"));
        let text = &EXAMPLE[start + heading.len()..];
        let text = text.find("\n[").map_or(text, |end| &text[..end]);
        // A setting whose default depends on another one is shown in a comment.
        let lines = [format!("\n{name} = "), format!("\n# {name} = ")];
        assert!(
            lines.iter().any(|line| text.contains(line)),
            "the example lacks {name} in [{section}]"
        );
    }
}

#[test]
fn what_is_printed_is_a_configuration_and_means_the_same() {
    let full = r#"
        listen = ["inet:8891@127.0.0.1", "unix:/run/a b\"c.sock"]
        on_error = "accept"
        contact = "help@our.example"
        [[list]]
        name = "one"
        filter = "lists/one.blf"
        load = "disk"
        check = ["resent-from"]
        action = "tempfail"
        reply = """
450 4.7.1 {address}
{{not a field}} see https://our.example/{case}"""
        recipients = ["@our.example"]
        mailing_list = "tag"
        max_age = "36h"
        max_unchanged = "2w"
        [[list]]
        name = "two"
        filter = "/two.blf"
        action = "discard"
        dry_run = true
        [exempt]
        networks = ["192.0.2.0/24", "2001:db8::/32"]
        [safety]
        max_reject_share = "50%"
        [status]
        listen = "inet6:9642@::1"
    "#;
    let once = parse(full).unwrap().to_string();
    has(&once, "filter = \"/etc/lists/one.blf\"");
    assert_eq!(parse(&once).unwrap().to_string(), once);
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let text = "\
listen = [\"tcp:25\"]
workrs = 4
on_error = \"acept\"
contact = \"our.example\"

[[list]]
name = \"a b\"
filter = \"x.blf\"
action = \"rejct\"
check = [\"form\", \"from\", 3]
reply = \"550 5.7.1 {adress} is listed\"

[[list]]
name = \"tagger\"
action = \"tag\"
reply = \"550 5.7.1 x\"

[whitlist]
files = []

[exempt]
networks = [\"192.0.2.1/24\"]
authenticated = \"yes\"

[whitelist]
require_dkim = true

[safety]
max_reject_share = \"120%\"
max_shrink = 0.5

[status]
listen = \"inet:9642@192.0.2.1\"

[[list]]
name = \"old\"
filter = \"old.blf\"
max_age = \"2 days\"
";
    faulty(
        text,
        r#"
        1:11:  | listen
        2:1:   | unknown setting workrs; there are: listen
        3:12:  | did you mean "accept"?
        4:11:  | must be a mail address in ASCII
        7:8:   | a name has
        9:10: | did you mean "reject"?
        10:10: | did you mean "from"?
        10:26: | expected a string in quotes, found an integer
        11:20: | {adress} is unknown
        13:    | missing required setting filter
        18:2:  | unknown setting whitlist; did you mean whitelist?
        22:13: | write 192.0.2.0/24
        23:17: | expected true or false
        26:16: | needs authserv_ids
        29:20: | must be at most 100%
        33:10: | can be reached from other machines
        38:11: | "2 days" is not an age
        30:14: | expected a percentage such as "50%", found a float
        "#,
    );
}

#[test]
fn syntax_errors_do_not_hide_the_others() {
    let problems = parse("sandbox = 4 4\n\n[log]\nlevl = \"info\"\n").unwrap_err();
    assert!(problems[0].starts_with("1:"), "{problems:?}");
    assert!(problems[1].starts_with("4:1:"), "{problems:?}");
    has(&problems[1], "did you mean level?");
    // An array without an end includes the rest of the file: each line is reported once.
    let problems = parse("listen = [\nworkrs = 3\n\n[log]\nlevl = \"info\"\n").unwrap_err();
    assert!(problems.len() <= 5, "{problems:?}");
}

/// Errors of the TOML itself name the setting, too, and how its value is written.
#[test]
fn syntax_errors_name_their_setting() {
    for [line, message] in rows(
        r#"
        on_error = accept        | 1:12: on_error: a text must be in quotes: "accept"
        on_error = 36h # why     | 1:12: on_error: a text must be in quotes: "36h"
        listen = ["x", unix:/y]  | 1:16: listen: a text must be in quotes: "unix:/y"
        listen = [\n"x",\n y]    | 3:2: a text must be in quotes: "y"
        contact =                | 1:10: contact: the value is missing
        sandbox = True           | 1:11: sandbox: invalid boolean, expected `true`; write true or false
        contact = "x             | 1:13: contact: invalid basic string, expected `"`
        "#,
    ) {
        let problems = parse(line).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem == message),
            "{problems:#?}"
        );
    }
}

/// A setting in the wrong section is not taken for a similar one.
#[test]
fn a_setting_in_the_wrong_place_is_told_where_it_belongs() {
    let text = "networks = []\nrequire_dkim = true\n[[list]]\nname='a'\nfilter='x'\non_error='accept'\n[log]\nconnections=3\naction='tag'\n";
    faulty(
        text,
        "
        1:1: | setting networks; it belongs in [exempt]
        2:1: | setting require_dkim; it belongs in [whitelist]
        6:1: | setting on_error in [list]; it belongs at the top of the file, before the first [section]
        8:1: | setting connections in [log]; it belongs in [limits]
        9:1: | setting action in [log]; it belongs in [[list]]
        ",
    );
}

#[test]
fn what_would_never_work_is_a_fault() {
    each_has_one_fault(
        r#"
        [[list]]\nname='a'\nfilter='x'\ncheck=[]     | 4:7:  | check: lacks
        listen = []                                  | 1:10: | listen: lacks
        sandbox = no                                 | 1:11: | ; write true or false
        sandbox = True                               | 1:11: | ; write true or false
        state = 'a'\nstatus_file = "a\\u0000b"       | 2:15: | status_file: a path cannot contain a NUL
        status_file = ''                             | 1:15: | status_file: empty path
        listen = ['unix:/a', 'inet:1@h', 'local:/a'] | 1:34: | unix:/a is listed twice
        [log]\nlevel='info'\nlevel='warn'            | 3:1:  | duplicate key level
        [[list]]\nname='a'\nfilter='x'\n[[list]]\nname='a'\nfilter='y' | 4: |
        "#,
    );
    assert!(parse("listen = ['inet:0@127.0.0.1', 'inet:0@127.0.0.1']\n").is_ok());
}

#[test]
fn a_setting_that_is_gone_says_what_replaces_it() {
    each_has_one_fault(
        r"
        socket_mode = '0600'             | 1:1: | socket_mode is no longer a setting: sockets have mode 0660
        workers = 4                      | 1:1: | workers is no longer a setting: there is a thread for each processor
        [safety]\nmax_growth = '100%'    | 2:1: | max_growth is no longer a setting: a list may grow
        [status]\ngroup = 'www-data'     | 2:1: | group is no longer a setting: a socket has the group of
        ",
    );
}

/// `listen = "unix:/a"` can mean only one thing.
#[test]
fn one_string_is_a_list_of_one() {
    for [section, name, value] in rows(
        r"
                                       | listen            | unix:/a
        [whitelist]                    | files             | w.txt
        [whitelist]                    | entries           | a@b.example
        [whitelist]                    | correspondents    | c.txt
        [whitelist]                    | authserv_ids      | mx.b.example
        [exempt]                       | networks          | 192.0.2.0/24
        [exempt]                       | recipients        | abuse@
        [safety]                       | must_miss         | a@b.example
        [[list]]\nname='a'\nfilter='x' | check             | from
        [[list]]\nname='a'\nfilter='x' | recipients        | @b.example
        [[list]]\nname='a'\nfilter='x' | except_recipients | c@b.example
        ",
    ) {
        let string = parse(&format!("{section}\n{name} = '{value}'\n")).unwrap();
        let list = parse(&format!("{section}\n{name} = ['{value}']\n")).unwrap();
        assert!(string == list, "{name}: {string}");
        assert!(string != parse(section).unwrap(), "{name}: {string}");
    }
    // The string is not split, and no other type is a list.
    each_has_one_fault(
        r#"
        listen = ''   | 1:10: | listen:
        [exempt]\nnetworks = '192.0.2.0/24, 198.51.100.0/24' | 2:12: | networks:
        listen = 8891 | 1:10: | expected a string or a list of strings, such as ["a", "b"], found an integer
        "#,
    );
}

/// Files that cannot be a configuration are reported as such, and never read completely.
#[test]
fn files_that_are_not_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin-1.toml");
    std::fs::write(&path, b"sandbox = true\n# caf\xe9\n").unwrap();
    let told = |path: &Path| Config::load(path).unwrap_err().to_string();
    has(&told(&path), "latin-1.toml:2:6: not UTF-8");
    has(&told(Path::new("/dev/zero")), "not a configuration file");
    has(&told(folder.path()), "Is a directory");
    std::fs::write(&path, b"\xef\xbb\xbfsandbox = false\r\n").unwrap();
    assert!(!Config::load(&path).unwrap().sandbox);
}

#[test]
fn each_reply_fits_its_action() {
    for (action, reply, fits) in [
        ("reject", "550 no", true),
        ("reject", "450 no", false),
        ("tempfail", "450 no", true),
        ("tempfail", "550 no", false),
        ("log", "550 no", true),
        ("tag", "450 no", true),
        ("tag", "550 {adress}", false),
    ] {
        let text = format!("[[list]]\nname='a'\nfilter='x'\naction='{action}'\nreply='{reply}'\n");
        assert_eq!(parse(&text).is_ok(), fits, "{text}");
    }
}

#[test]
fn mailing_lists_are_not_treated_harder() {
    let with = |action: &str, softer: &str| {
        let text =
            format!("[[list]]\nname='a'\nfilter='x'\naction='{action}'\nmailing_list='{softer}'\n");
        parse(&text).is_ok()
    };
    assert!(with("reject", "tag") && with("tag", "same") && with("tag", "tag"));
    assert!(!with("tag", "reject"));
}

/// The page is written by hand; it must have every setting.
#[test]
fn the_manual_names_every_setting() {
    let path = root("contrib/man/blocklist-milter.toml.5");
    let manual = std::fs::read_to_string(path).unwrap();
    let manual = manual.replace("\\-", "-").replace("\\_", "_");
    for (_, name) in settings() {
        has(&manual, name);
    }
}
