# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_blocklist_compile_global_optspecs
    string join \n h/help V/version
end

function __fish_blocklist_compile_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_blocklist_compile_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_blocklist_compile_using_subcommand
    set -l cmd (__fish_blocklist_compile_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -s V -l version -d 'Print version'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "build" -d 'Build a filter file from text lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "query" -d 'Show whether addresses are listed, and why'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "info" -d 'Describe a filter file'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "update" -d 'Add entries to a filter that has records, and remove some, without its text lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "add" -d 'Block a sender now: add entries to a text list, and to its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "remove" -d 'Clear a sender now: remove entries from a text list, and from its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "merge" -d 'Merge filters with the same seed (see --seed-from) into one'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "compare" -d 'Count the entries that two filters share'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "overlap" -d 'Count the entries that each pair of filters shares, to see which lists are worth having'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "false-positives" -d 'Find known good senders that the filter hits'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "verify" -d 'Read a whole filter file and check every checksum and record'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s o -l output -d 'The filter file to write; replaced only after the new one is complete and checked' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l name -d 'Name of the list in logs and replies [default: the file\'s name]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l fpr -d 'False-positive rate of the Bloom filter, as a share of innocent senders. The exact records then clear them' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l seed-from -d 'Use the hash seed of another filter, so that the two can be merged and compared' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l seed -d 'The hash seed, 1 to 16 hexadecimal digits [default: the seed of the file to replace, or random]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-shrink -d 'Write nothing if an input, or the filter, has shrunk by more than this, such as 20%. Lists of fewer than 100 entries may shrink to nothing' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-growth -d 'Write nothing if an input that had 100 entries or more has grown by more than this' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l format -d 'Format of the inputs: plain, sections, hosts, csv, postfix-access, sendmail-access, spamassassin, rspamd, amavis, exim, json, jsonl, rpz, rbldnsd, dnsmasq, adblock (csv:3 for the third column) [default: detected from their content]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l expires -d 'First day on which the entries are no longer listed, unless their list says otherwise: a date, or a number of days after the build date, such as 30d' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l protect -d 'Reject entries that list senders of this domain, including local parts at every domain (spammer@); may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow -d 'Accept this overly broad entry, such as .example or newsletter@; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-rejects -d 'Write nothing if more lines than this are rejected' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l rejects -d 'Write every rejected, skipped or repaired line to this file, as file:line: reason: text, except blank lines and comments' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l threads -d 'Number of worker threads; fewer if memory does not suffice [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l date -d 'Build date; days until entries expire count from it [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l input -d 'Also read this list, even if it has the name of an allowlist or a backup; may be repeated' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l no-records -d 'Leave out the exact records: less than half the size, but hits cannot be confirmed, and the share --fpr of innocent senders is refused'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow-empty -d 'Write a filter even if an input that had 100 entries or more now has none, or if every line is rejected'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l overwrite -d 'Replace an output that is not a filter file, or is damaged'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l plus -d 'Remove +tag from local parts at every domain'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l srs -d 'Also look up the sender inside SRS addresses'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l nfkc -d 'Compare local parts in Unicode form NFKC: full-width and similar forms are equal'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l no-providers -d 'Do not apply the rules of mail providers, such as ignoring dots at Gmail'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow-world -d 'Accept all overly broad entries: public suffixes, providers of free mailboxes, services that many senders share, postmaster@, info@. --protect still applies'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l strict -d 'Write nothing if any line is rejected, or if an input has no entry'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l json -d 'Print the report as one JSON object on standard output, instead of text on standard error'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand query" -l json -d 'Print JSON, one line per address'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand query" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand info" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l add -d 'A list of entries to add, or one entry such as spam@bad.example; may be repeated' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l remove -d 'A list of entries to remove, or one entry; may be repeated. Wins over --add' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l fpr -d 'Rebuild the filter for another false-positive rate' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l format -d 'Format of the inputs: plain, sections, hosts, csv, postfix-access, sendmail-access, spamassassin, rspamd, amavis, exim, json, jsonl, rpz, rbldnsd, dnsmasq, adblock (csv:3 for the third column) [default: detected from their content]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l expires -d 'First day on which the entries are no longer listed, unless their list says otherwise: a date, or a number of days after the build date, such as 30d' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l protect -d 'Reject entries that list senders of this domain, including local parts at every domain (spammer@); may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l allow -d 'Accept this overly broad entry, such as .example or newsletter@; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l max-rejects -d 'Write nothing if more lines than this are rejected' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l rejects -d 'Write every rejected, skipped or repaired line to this file, as file:line: reason: text, except blank lines and comments' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l threads -d 'Number of worker threads; fewer if memory does not suffice [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l date -d 'Build date; days until entries expire count from it [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l allow-world -d 'Accept all overly broad entries: public suffixes, providers of free mailboxes, services that many senders share, postmaster@, info@. --protect still applies'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l strict -d 'Write nothing if any line is rejected, or if an input has no entry'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l json -d 'Print the report as one JSON object on standard output, instead of text on standard error'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -l filter -d 'Also change this filter' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -l note -d 'A comment for the new lines, such as a ticket number' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -l filter -d 'Also change this filter' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -l note -d 'A comment for the new lines, such as a ticket number' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s o -l output -d 'The filter file to write' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l name -d 'Name of the list in logs and replies [default: the file\'s name]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l fpr -d 'False-positive rate, as for `build` [default: the lowest rate of the inputs]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l threads -d 'Number of worker threads; fewer if memory does not suffice [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l date -d 'Build date; days until entries expire count from it [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l overwrite -d 'Replace an output that is not a filter file, or is damaged'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l json -d 'Print the report as one JSON object on standard output, instead of text on standard error'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand compare" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand overlap" -l svg -d 'Also draw the matrix as an SVG picture' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand overlap" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand overlap" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand false-positives" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand false-positives" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand verify" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "build" -d 'Build a filter file from text lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "query" -d 'Show whether addresses are listed, and why'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "info" -d 'Describe a filter file'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "update" -d 'Add entries to a filter that has records, and remove some, without its text lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "add" -d 'Block a sender now: add entries to a text list, and to its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "remove" -d 'Clear a sender now: remove entries from a text list, and from its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "merge" -d 'Merge filters with the same seed (see --seed-from) into one'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "compare" -d 'Count the entries that two filters share'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "overlap" -d 'Count the entries that each pair of filters shares, to see which lists are worth having'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "false-positives" -d 'Find known good senders that the filter hits'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "verify" -d 'Read a whole filter file and check every checksum and record'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build query info update add remove merge compare overlap false-positives verify help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
