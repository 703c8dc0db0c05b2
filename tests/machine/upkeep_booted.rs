//! The units that keep lists up to date, in a separate booted machine: no change of a list is
//! missed, whenever it happens.

use crate::support;

use support::booted::Booted;

/// One file comes immediately after a compilation, when systemd begins to watch the folder again;
/// another during a compilation.
const CHANGES: &str = r#"
set -eu
CARGO_TARGET_DIR=/run/built contrib/install --postfix >/dev/null
lists=/etc/blocklist-milter/lists/spammers
state=/var/lib/blocklist-milter
systemctl enable --now blocklist-compile@spammers.path 2>/dev/null
until [ -e $state/.spammers.compiled ]; do sleep 0.05; done

listed() {
    tries=0
    until blocklist-compile query $state/spammers.blf "$1" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "$1 is not listed after 15 s"; ls -la $lists $state; journalctl --no-pager -n 40; exit 1; }
        sleep 0.05
    done
}
for round in $(seq $ROUNDS); do
    echo "first$round@spam.example" >$lists/$round.first
    until [ -e $state/.spammers.compiling ]; do :; done
    [ $((round % 2)) = 0 ] || while [ -e $state/.spammers.compiling ]; do :; done
    echo "second$round@spam.example" >$lists/$round.second
    listed first$round@spam.example
    listed second$round@spam.example
done
"#;

fn assert_each_change_is_compiled(rounds: u32) {
    if let Some(machine) = Booted::turn() {
        machine.done(&format!("ROUNDS={rounds}\n{CHANGES}"));
    }
}

#[test]
fn a_change_at_any_moment_is_compiled() {
    assert_each_change_is_compiled(6);
}

#[test]
#[ignore = "a minute or two: tests/run --long"]
fn many_changes_at_any_moment_are_compiled() {
    assert_each_change_is_compiled(60);
}

/// The same lines: from a user with `logger`, and from the units of mail servers.
const CORRESPONDENTS: &str = r#"
set -eu
CARGO_TARGET_DIR=/run/built contrib/install --postfix >/dev/null
lines() {
    $1 smtpd "$2: client=host[192.0.2.5], sasl_method=PLAIN, sasl_username=alice"
    $1 qmgr "$2: from=<alice@our.example>, size=500, nrcpt=1 (queue active)"
    $1 smtp "$2: to=<$2@other.example>, relay=mx.other.example[198.51.100.1]:25, delay=1, status=sent (250 ok)"
}
as_user() { runuser -u nobody -- logger --priority mail.info --tag "postfix/$1" "$2"; }
as_unit() {
    echo "$2" >/run/line
    printf '[Service]\nType=oneshot\nSyslogFacility=mail\nSyslogIdentifier=%s\nExecStart=cat /run/line\n' "postfix/$1" \
        >"/etc/systemd/system/$unit"
    systemctl daemon-reload
    systemctl restart "$unit"
}
lines as_user FORGED
for unit in postfix.service postfix@-.service sendmail.service; do
    lines as_unit "REAL${#unit}"
done
journalctl --sync
journalctl --quiet SYSLOG_FACILITY=2 | grep -q FORGED
systemctl start blocklist-correspondents.service
cat /var/lib/blocklist-milter/correspondents.txt
"#;

#[test]
fn a_user_of_the_machine_plants_no_correspondent() {
    let Some(machine) = Booted::turn() else {
        return;
    };
    let output = machine.output(CORRESPONDENTS);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let kept: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once(" # seen "))
        .map(|(address, _)| address)
        .collect();
    let real = ["real15", "real16", "real17"].map(|name| format!("{name}@other.example"));
    assert_eq!(kept, real, "{said}");
}
