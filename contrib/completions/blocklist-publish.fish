complete -c blocklist-publish -l to -d 'The store: a folder, https://HOST/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH. Only the hosts must be able to read it' -r
complete -c blocklist-publish -l list -d 'Name of the list; the filter must have been built with this name' -r
complete -c blocklist-publish -l ring -d 'A ring and its hosts, such as first=mx1,test-* or first=5%; may be repeated. A name without a dot matches a host in any domain. N% stands for this share of all hosts; a larger share contains the smaller ones' -r
complete -c blocklist-publish -l only -d 'Give the filter only to this ring, until --promote gives it to the others' -r
complete -c blocklist-publish -l promote-after -d 'Give the filter only to the first --ring. After this time, such as 2h, give it to the next ring, and after the same time in the last one to all hosts. A later filter waits until the one before has left the first ring' -r
complete -c blocklist-publish -l valid -d 'For how many hours the new manifest is valid' -r
complete -c blocklist-publish -l keep -d 'How many deltas to keep: a host that was away for longer reads the whole file' -r
complete -c blocklist-publish -l next-key -d 'Announce the public key that will replace the present one' -r
complete -c blocklist-publish -l previous-key -d 'The previous public key, needed once after a change of keys' -r
complete -c blocklist-publish -l key -d 'The secret key, as minisign -G -W makes it' -r -F
complete -c blocklist-publish -l password-file -d 'File with the password of the key in its first line' -r -F
complete -c blocklist-publish -l promote -d 'Publish no file; give the filter of this ring to all hosts, or to the ring of --only. The rings and their hosts do not change' -r
complete -c blocklist-publish -l generation -d 'With --promote: refuse if the ring has another generation. This protects against a publication in between, and against somebody who restores an older manifest' -r
complete -c blocklist-publish -l all -d 'Give the filter to all hosts, and forget the rings of the last publication that --ring does not name'
complete -c blocklist-publish -l check-store -d 'Read all files in the store, and replace damaged ones'
complete -c blocklist-publish -s q -l quiet -d 'Print errors only'
complete -c blocklist-publish -s h -l help -d 'Print help (see more with \'--help\')'
complete -c blocklist-publish -s V -l version -d 'Print version'
