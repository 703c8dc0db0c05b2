//! Debian's Exim packages in a separate booted machine, with the units of the daemon: light and heavy, with the single
//! and with the split configuration.

use crate::support;

use support::booted::{Booted, packages};

const INSTALL: &str = include_str!("exim/install.sh");
const PLAY: &str = include_str!("exim/play.py");

fn each_message_gets_its_answer(daemon: &str, split: bool) {
    if !packages("exim-packages") {
        return;
    }
    let Some(machine) = Booted::turn() else {
        return;
    };
    machine.done(&format!("DAEMON={daemon} SPLIT={split}\n{INSTALL}"));
    machine.done(&format!("python3 - <<'END'\n{PLAY}END\n"));
}

#[test]
fn light_with_the_single_configuration() {
    each_message_gets_its_answer("light", false);
}

#[test]
fn heavy_with_the_split_configuration() {
    each_message_gets_its_answer("heavy", true);
}

#[test]
#[ignore = "half a minute: tests/run --long"]
fn light_with_the_split_configuration() {
    each_message_gets_its_answer("light", true);
}

#[test]
#[ignore = "half a minute: tests/run --long"]
fn heavy_with_the_single_configuration() {
    each_message_gets_its_answer("heavy", false);
}
