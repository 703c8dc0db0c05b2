//! The units that keep lists up to date, in a separate booted machine: no change of a list is
//! missed, whenever it happens.

use crate::support;

use std::path::Path;

use support::booted::Booted;
use support::markdown::root;

const PROGRAM: &str = env!("CARGO_BIN_EXE_blocklist-milter");

/// One file comes immediately after a compilation, when systemd begins to watch the folder again;
/// another during a compilation.
const CHANGES: &str = r#"
set -eu
mkdir -p /run/built
ln -s "$PROGRAMS" /run/built/release
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
for round in $(seq 20); do
    echo "first$round@spam.example" >$lists/$round.first
    until [ -e $state/.spammers.compiling ]; do :; done
    [ $((round % 2)) = 0 ] || while [ -e $state/.spammers.compiling ]; do :; done
    echo "second$round@spam.example" >$lists/$round.second
    listed first$round@spam.example
    listed second$round@spam.example
done
"#;

#[test]
fn a_change_at_any_moment_is_compiled() {
    let Some(machine) = Booted::start() else {
        return;
    };
    let programs = Path::new(PROGRAM).parent().expect("in a folder");
    let output = machine.output(&format!(
        "PROGRAMS={}; cd {}\n{CHANGES}",
        programs.display(),
        root().display()
    ));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
