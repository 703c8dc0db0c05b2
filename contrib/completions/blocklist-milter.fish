# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_blocklist_milter_global_optspecs
    string join \n config= check print-config h/help V/version
end

function __fish_blocklist_milter_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_blocklist_milter_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_blocklist_milter_using_subcommand
    set -l cmd (__fish_blocklist_milter_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -l check -d 'The same as the command check'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -l print-config -d 'The same as the command print-config'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -s V -l version -d 'Print version'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "check" -d 'Check configuration, filters and whitelists; show every error'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "print-config" -d 'Print the effective configuration, with defaults'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "reload" -d 'Make the running daemon load configuration, filters and whitelists again, and wait for the result'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "status" -d 'Show the state of the running daemon: lists, verdicts, problems'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "log" -d 'Show the last decisions of the running daemon: whom it refused, tagged or accepted in spite of a list'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "explain" -d 'Show what would happen to a message, and why'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "replay" -d 'Show what would have happened to a whole mailbox'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "report" -d 'Report what the daemon did, from its log, as text or JSON'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "case" -d 'Find the decision with a case id in the daemon\'s log, and explain it'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "correspondents" -d 'Maintain a file of addresses that your users write to, so that no list refuses them'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "junk" -d 'Add the senders of messages that users report as junk to a blocklist of your own'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "setup-check" -d 'Check how this machine is set up: units, sockets, Postfix or Sendmail, filters; then ask the mail server over SMTP whether it asks the milter'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "demo" -d 'Show how the milter works, without an installation'
complete -c blocklist-milter -n "__fish_blocklist_milter_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand check" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand check" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand print-config" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand print-config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand reload" -l pid -d 'Process ID of the daemon [default: that of the daemon that wrote `status_file`]' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand reload" -l timeout -d 'Give up after this many seconds; reading large filters takes a while' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand reload" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand status" -l socket -d 'Ask at this address, such as unix:/run/x.sock or inet:9642@127.0.0.1 [default: `listen` in section `status` of the configuration]' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand status" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand status" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -l socket -d 'Ask at this address, such as unix:/run/x.sock or inet:9642@127.0.0.1 [default: `listen` in section `status` of the configuration]' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -l list -d 'Only decisions of this list' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -l action -d 'Only decisions with this action; accept is that of whitelisted and exempt senders' -r -f -a "accept\t''
none\t''
log\t''
tag\t''
quarantine\t''
discard\t''
tempfail\t''
reject\t''"
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -s f -l follow -d 'Wait for new decisions, and show each, until interrupted'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -l json -d 'Print one JSON object instead of text, with the commands that undo each decision'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l mail-from -d 'Envelope sender, the argument of MAIL FROM' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l mail-addr -d 'Envelope sender as rewritten by the mail server (milter macro {mail_addr})' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l rcpt -d 'Envelope recipient; may be repeated [default: a recipient who is not exempt]' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l rcpt-addr -d 'Recipient as rewritten by the mail server (milter macro {rcpt_addr}); in the order of --rcpt' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l client -d 'Address of the SMTP client' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l address -d 'Explain this sender instead of a message' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l authenticated -d 'The client is authenticated (SMTP AUTH)'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l sendmail -d 'Read the header as Sendmail delivers it: `mal lory@bad.example` is mal.lory@bad.example there'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand replay" -l against -d 'Show what another configuration would change' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand replay" -l correspondents -d 'Show what this file of correspondents would change: which mail would not have been refused; may be repeated' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand replay" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand replay" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -l since -d 'First day of the report (UTC), such as 2026-11-21, or 7d for the last seven days. Older lines are used only to know what was refused before' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -l state -d 'Remember in this file what was refused and which lists had hits, for the next report' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -l mail-to -d 'Begin the output with mail headers to this address, for sendmail -t' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand case" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand case" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand case" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -s o -l output -d 'The file to update; name it in the setting correspondents of the configuration' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l keep -d 'Drop addresses that nobody has written to for this long' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l sent -d 'A mailbox of sent mail: a maildir or another folder of messages, one file each; may be repeated. No link is followed' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l own-domain -d 'One of your own domains, whose addresses are left out; may be repeated. The domain of each sender is left out anyway' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l client -d 'Also count mail of these clients, which send without authentication; may be repeated' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l uid -d 'Also count mail that this local user submits; may be repeated. Do not use it for accounts of web forms or programs, which write to anyone' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand correspondents" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l list -d 'The text list of reported senders; created if missing' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l by -d 'Name of the reporting user, for the comment' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l expires -d 'Days until the entries expire' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l own-domain -d 'One of your own domains, whose senders are not listed; may be repeated. The domain of the recipient (Delivered-To) is left out anyway' -r
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l undo -d 'Remove the entries that reports have added for these senders; entries added by hand stay. No report adds them again until 90 days after the last one'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand junk" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -l postfix -d 'Folder of Postfix\'s main.cf [default: that of postconf, usually /etc/postfix]' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -l sendmail -d 'Sendmail\'s configuration [default: /etc/mail/sendmail.cf, if there is one]' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -l exim -d 'Exim\'s configuration [default: the one that Exim would read]' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -l json -d 'Print one JSON object instead of text'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand setup-check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand demo" -l config -d 'Configuration file' -r -F
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "check" -d 'Check configuration, filters and whitelists; show every error'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "print-config" -d 'Print the effective configuration, with defaults'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "reload" -d 'Make the running daemon load configuration, filters and whitelists again, and wait for the result'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "status" -d 'Show the state of the running daemon: lists, verdicts, problems'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "log" -d 'Show the last decisions of the running daemon: whom it refused, tagged or accepted in spite of a list'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "explain" -d 'Show what would happen to a message, and why'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "replay" -d 'Show what would have happened to a whole mailbox'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "report" -d 'Report what the daemon did, from its log, as text or JSON'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "case" -d 'Find the decision with a case id in the daemon\'s log, and explain it'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "correspondents" -d 'Maintain a file of addresses that your users write to, so that no list refuses them'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "junk" -d 'Add the senders of messages that users report as junk to a blocklist of your own'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "setup-check" -d 'Check how this machine is set up: units, sockets, Postfix or Sendmail, filters; then ask the mail server over SMTP whether it asks the milter'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "demo" -d 'Show how the milter works, without an installation'
complete -c blocklist-milter -n "__fish_blocklist_milter_using_subcommand help; and not __fish_seen_subcommand_from check print-config reload status log explain replay report case correspondents junk setup-check demo help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
