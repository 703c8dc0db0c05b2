complete -c blocklist-publish -l to -d 'The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. Only the hosts may be able to read it' -r
complete -c blocklist-publish -l list -d 'The list; the filter must have been built with this name' -r
complete -c blocklist-publish -l key -d 'The secret key, as minisign -G -W makes it' -r -F
complete -c blocklist-publish -l password-file -d 'The first line of this file is the password of the key' -r -F
complete -c blocklist-publish -l ring -d 'A ring and its hosts, such as first=mx1,test-*; may be repeated. A name without a dot matches a host in any domain' -r
complete -c blocklist-publish -l only -d 'Give the filter to this ring alone, until --promote gives it to the others' -r
complete -c blocklist-publish -l promote -d 'Publish no file: give what this ring has to all hosts, or to those of --only. The rings and their hosts stay as they are' -r
complete -c blocklist-publish -l generation -d 'With --promote: refuse if the ring has another generation than this, as after a publication that came meanwhile, or in a store where somebody has put an older manifest in place' -r
complete -c blocklist-publish -l valid -d 'For how many hours hosts believe what is published now' -r
complete -c blocklist-publish -l keep -d 'How many deltas to keep; a host applies ten at most' -r
complete -c blocklist-publish -l next-key -d 'Announce the public key that will sign from some day on' -r
complete -c blocklist-publish -l previous-key -d 'The public key that signed before, once after a change' -r
complete -c blocklist-publish -s q -l quiet -d 'Print errors only'
complete -c blocklist-publish -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-publish -s V -l version -d 'Print version'
