complete -c blocklist-fetch -l from -d 'The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. The login for a web server, USER:PASSWORD, is read from the environment variable STORE_LOGIN' -r
complete -c blocklist-fetch -l list -d 'Name of the list' -r
complete -c blocklist-fetch -l key -d 'The publisher\'s public key: a file of minisign, or its line RW...' -r
complete -c blocklist-fetch -s o -l output -d 'The filter file to update' -r -F
complete -c blocklist-fetch -l host -d 'Name of this host, which determines its ring [default: the host name]' -r
complete -c blocklist-fetch -l max-shrink -d 'Refuse a filter that has lost more than this share of its entries, in percent, such as 20' -r
complete -c blocklist-fetch -l max-growth -d 'Refuse a filter that has grown by more than this share, in percent, such as 100' -r
complete -c blocklist-fetch -l status -d 'Write the generation, the age and the last error to this file: a line for people, and metrics for the textfile collector of node_exporter' -r -F
complete -c blocklist-fetch -s q -l quiet -d 'Print errors only'
complete -c blocklist-fetch -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-fetch -s V -l version -d 'Print version'
