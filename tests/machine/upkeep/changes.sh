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
    # On a busy machine, it may be over before it is seen.
    until [ -e $state/.spammers.compiling ] || [ $state/.spammers.compiled -nt $lists/$round.first ]; do :; done
    [ $((round % 2)) = 0 ] || while [ -e $state/.spammers.compiling ]; do :; done
    echo "second$round@spam.example" >$lists/$round.second
    listed first$round@spam.example
    listed second$round@spam.example
done
