//! The examples at the end of the help of each command of `blocklist-compile`.

pub(super) const PROGRAM: &str = "\
Examples:
  blocklist-compile build -o spammers.blf lists/
  blocklist-compile query spammers.blf spammer@bad.example
  blocklist-compile add lists/own.txt --filter own.blf spammer@bad.example
  blocklist-compile info spammers.blf";

pub(super) const BUILD: &str = "\
Examples:
  blocklist-compile build -o spammers.blf lists/
  zcat more.gz | blocklist-compile build -o more.blf --max-shrink 20% -
  blocklist-compile build -o new.blf --expires 30d feed.csv
  blocklist-compile build --part -o a.part --seed-from seed.blf --source big.txt piece.a";

pub(super) const PREVIEW: &str = "\
Examples:
  blocklist-compile preview lists/spammers
  blocklist-compile preview --write lists/spammers/partner.csv
  blocklist-compile preview --against spammers.blf lists/spammers";

pub(super) const QUERY: &str = "\
Examples:
  blocklist-compile query spammers.blf spammer@bad.example
  blocklist-compile query --json spammers.blf - < addresses.txt";

pub(super) const INFO: &str = "\
Example:
  blocklist-compile info --json spammers.blf | jq .entries";

pub(super) const UPDATE: &str = "\
Examples:
  blocklist-compile update spammers.blf --add today.txt --remove gone.txt
  blocklist-compile update spammers.blf --fpr 1e-4";

pub(super) const ADD: &str = "\
Examples:
  blocklist-compile add lists/own.txt --note 'ticket 4711' spammer@bad.example
  blocklist-compile add lists/own.txt --filter own.blf @bad.example";

pub(super) const REMOVE: &str = "\
Example:
  blocklist-compile remove lists/own.txt --filter own.blf friend@good.example";

pub(super) const MERGE: &str = "\
Examples:
  blocklist-compile merge -o all.blf spammers.blf disposable.blf
  blocklist-compile merge -o big.blf --source big.txt --expect pieces.txt parts/*.part";

pub(super) const DELTA: &str = "\
Example:
  blocklist-compile delta -o 41-42.delta spammers.41.blf spammers.42.blf";

pub(super) const APPLY: &str = "\
Examples:
  blocklist-compile apply -o spammers.blf spammers.blf 41-42.delta
  blocklist-compile apply -o new.blf old.blf 41-42.delta 42-43.delta 43-44.delta";

pub(super) const COMPARE: &str = "\
Example:
  blocklist-compile compare --json yesterday.blf today.blf";

pub(super) const OVERLAP: &str = "\
Example:
  blocklist-compile overlap *.blf";

pub(super) const FALSE_POSITIVES: &str = "\
Example:
  blocklist-compile false-positives own.blf /var/log/mail.log >> whitelist.txt";

pub(super) const VERIFY: &str = "\
Example:
  blocklist-compile verify spammers.blf";
