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
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "preview" -d 'Show what lists are read as, and what would come of them, without building a filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "query" -d 'Show whether addresses are listed, and why'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "info" -d 'Describe a filter file'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "feed" -d 'Show what list.toml of a folder says about its feed, for the script that fetches it'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "update" -d 'Add or remove entries of a filter directly, without its text lists (the filter must have records)'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "add" -d 'Block a sender: add entries to a text list (and to its filter, with --filter)'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "remove" -d 'Unblock a sender: remove entries from a text list (and from its filter, with --filter)'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "merge" -d 'Merge filters with the same seed (see --seed-from) into one, or the parts of a list into its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "delta" -d 'Write the changes from one filter to the next, for hosts that have the first'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "apply" -d 'Make a filter from an older one and deltas'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "compare" -d 'Count the entries that two filters share'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "overlap" -d 'Count the entries that each pair of filters shares, to see which lists are worth using'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "false-positives" -d 'Find known good senders that the filter lists or matches'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "verify" -d 'Read a whole filter file and check every checksum and record'
complete -c blocklist-compile -n "__fish_blocklist_compile_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s o -l output -d 'Filter file to write' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l name -d 'Name of the list in logs and replies [default: the output file\'s name without .blf]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l fpr -d 'False-positive rate of the Bloom filter [default: 1e-4; without records 1e-6]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l part -d 'Write a part of a list instead of a filter: the entries of one piece' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l source -d 'Count all inputs as this one list, of which they are pieces' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l seed-from -d 'Use the hash seed of this filter, so that both can be merged and compared' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l seed -d 'Hash seed, in hexadecimal [default: that of the file to replace, or random]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-shrink -d 'Write nothing if an input, or the whole filter, has lost more than this share of its entries' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-growth -d 'Write nothing if an input has gained more than this share, such as 100%' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l by -d 'The command that runs this one, for messages that name an option' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l copies -d 'The daemon\'s folder of copies (state in its configuration), for an output that is damaged or gone' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l input -d 'Also read this list, whatever its name; may be repeated' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l fetched -d 'What the feed of the folder has fetched: a file or a folder' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l format -d 'Format of the inputs [default: detected from their content]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l separator -d 'What divides the columns of a table: , ; | : tab or space' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l entry -d 'The column that names the sender: its heading, or its number from 1; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l when -d 'These values of a column list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l unless -d 'These values of a column do not list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l at-least -d 'Numbers in a column list a row from this one on; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l rows -d 'Every row of a table counts: --rows all' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l expires-in -d 'The column with the day on which an entry ends' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l added-in -d 'The column with the day on which an entry was added' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l date-format -d 'How dates are written, such as %d.%m.%Y [default: as in 2026-12-31, ISO 8601]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l never -d 'A text that means no date, besides an empty one; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l expires -d 'Day on which entries expire, or days after the build date, such as 30d' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l protect -d 'Reject entries that list senders of this domain; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow -d 'Accept this overly broad entry, such as newsletter@; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l max-rejects -d 'Write nothing if more lines of a list than this are rejected: a number, or a percentage of its entries and rejected lines together' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l threads -d 'Number of worker threads [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l date -d 'Build date [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l no-records -d 'Leave out the exact records, which confirm matches'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow-empty -d 'Write a filter even if an input has become empty'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l overwrite -d 'Replace an output that is not a filter file, or is damaged'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l plus -d 'Remove +tag from local parts at every domain'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l srs -d 'Also look up the sender inside SRS addresses'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l nfkc -d 'Compare local parts in Unicode form NFKC'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l no-providers -d 'Do not apply rules of mail providers, such as no dots at Gmail'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l subdomains -d 'A domain stands for its subdomains, too'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l allow-world -d 'Accept all overly broad entries'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l strict -d 'Write nothing if any line is rejected, or if an input has no entry'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -l json -d 'Print the report as JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l against -d 'Show which entries would come into this filter, and how many would go' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l format -d 'Format of the inputs [default: detected from their content]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l separator -d 'What divides the columns of a table: , ; | : tab or space' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l entry -d 'The column that names the sender: its heading, or its number from 1; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l when -d 'These values of a column list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l unless -d 'These values of a column do not list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l at-least -d 'Numbers in a column list a row from this one on; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l rows -d 'Every row of a table counts: --rows all' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l expires-in -d 'The column with the day on which an entry ends' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l added-in -d 'The column with the day on which an entry was added' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l date-format -d 'How dates are written, such as %d.%m.%Y [default: as in 2026-12-31, ISO 8601]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l never -d 'A text that means no date, besides an empty one; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l expires -d 'Day on which entries expire, or days after the build date, such as 30d' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l protect -d 'Reject entries that list senders of this domain; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l allow -d 'Accept this overly broad entry, such as newsletter@; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l max-rejects -d 'Write nothing if more lines of a list than this are rejected: a number, or a percentage of its entries and rejected lines together' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l write -d 'Add the proposed declarations to list.toml in the folder of the lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l subdomains -d 'A domain stands for its subdomains, too'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l allow-world -d 'Accept all overly broad entries'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -l strict -d 'Write nothing if any line is rejected, or if an input has no entry'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand preview" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand query" -l json -d 'Print JSON, one line per address'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand query" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand info" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand feed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l add -d 'A list of entries to add, or one entry such as spam@bad.example; may be repeated' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l remove -d 'A list of entries to remove, or one entry; may be repeated. Has precedence over --add' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l fpr -d 'Rebuild the filter for another false-positive rate' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l format -d 'Format of the inputs [default: detected from their content]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l separator -d 'What divides the columns of a table: , ; | : tab or space' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l entry -d 'The column that names the sender: its heading, or its number from 1; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l when -d 'These values of a column list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l unless -d 'These values of a column do not list a row; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l at-least -d 'Numbers in a column list a row from this one on; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l rows -d 'Every row of a table counts: --rows all' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l expires-in -d 'The column with the day on which an entry ends' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l added-in -d 'The column with the day on which an entry was added' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l date-format -d 'How dates are written, such as %d.%m.%Y [default: as in 2026-12-31, ISO 8601]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l never -d 'A text that means no date, besides an empty one; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l expires -d 'Day on which entries expire, or days after the build date, such as 30d' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l protect -d 'Reject entries that list senders of this domain; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l allow -d 'Accept this overly broad entry, such as newsletter@; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l max-rejects -d 'Write nothing if more lines of a list than this are rejected: a number, or a percentage of its entries and rejected lines together' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l threads -d 'Number of worker threads [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l date -d 'Build date [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l subdomains -d 'A domain stands for its subdomains, too'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l allow-world -d 'Accept all overly broad entries'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l strict -d 'Write nothing if any line is rejected, or if an input has no entry'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -l json -d 'Print the report as JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -l filter -d 'Also change this filter' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -l note -d 'A comment for the new lines, such as a ticket number' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -l filter -d 'Also change this filter' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -l note -d 'A comment for the new lines, such as a ticket number' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s o -l output -d 'Filter file to write' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l name -d 'Name of the list in logs and replies [default: the output file\'s name without .blf]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l fpr -d 'False-positive rate, as for build [default: the lowest rate of the inputs]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l max-shrink -d 'Write nothing if a list, or the whole filter, has lost more than this share of its entries, such as 20%' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l max-growth -d 'Write nothing if a list has gained more than this share, such as 100%' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l expect -d 'Parts only: write nothing unless the parts are exactly the pieces in this file' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l source -d 'Parts only: write nothing unless they are parts of this list; may be repeated' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l threads -d 'Number of worker threads [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l memory -d 'Memory limit, such as 512M or 2G [default: a quarter of the available memory]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l date -d 'Build date [default: SOURCE_DATE_EPOCH, or today]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l report -d 'Write the report to this file as JSON; - is the same as --json' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l overwrite -d 'Replace an output that is not a filter file, or is damaged'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -l json -d 'Print the report as JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand merge" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand delta" -s o -l output -d 'The delta to write. An existing file is replaced only if it is a delta' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand delta" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand delta" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand delta" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -s o -l output -d 'The filter file to write; may be OLD' -r -F
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -l max-shrink -d 'Write nothing if the result has lost more than this share of the entries of OLD, such as 20%' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -l max-growth -d 'Write nothing if it has gained more than this share, such as 100%' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -l threads -d 'Number of worker threads [default: one per processor]' -r
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -l overwrite -d 'Replace an output that is not a filter file, or is damaged'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -s q -l quiet -d 'Print errors only'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand compare" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand overlap" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand overlap" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand false-positives" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand false-positives" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand verify" -l json -d 'Print JSON'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "build" -d 'Build a filter file from text lists'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "preview" -d 'Show what lists are read as, and what would come of them, without building a filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "query" -d 'Show whether addresses are listed, and why'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "info" -d 'Describe a filter file'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "feed" -d 'Show what list.toml of a folder says about its feed, for the script that fetches it'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "update" -d 'Add or remove entries of a filter directly, without its text lists (the filter must have records)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "add" -d 'Block a sender: add entries to a text list (and to its filter, with --filter)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "remove" -d 'Unblock a sender: remove entries from a text list (and from its filter, with --filter)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "merge" -d 'Merge filters with the same seed (see --seed-from) into one, or the parts of a list into its filter'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "delta" -d 'Write the changes from one filter to the next, for hosts that have the first'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "apply" -d 'Make a filter from an older one and deltas'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "compare" -d 'Count the entries that two filters share'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "overlap" -d 'Count the entries that each pair of filters shares, to see which lists are worth using'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "false-positives" -d 'Find known good senders that the filter lists or matches'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "verify" -d 'Read a whole filter file and check every checksum and record'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand help; and not __fish_seen_subcommand_from build preview query info feed update add remove merge delta apply compare overlap false-positives verify help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand info" -k -f -a '(__fish_complete_suffix .blf)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand query" -k -f -a '(__fish_complete_suffix .blf)'
complete -c blocklist-compile -n "__fish_blocklist_compile_using_subcommand verify" -k -f -a '(__fish_complete_suffix .blf)'
