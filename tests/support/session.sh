# What the scripts of sessions have, besides both programs.

# list NAME ENTRY...: a list, and its filter.
list() {
    name=$1; shift
    printf '%s\n' "$@" >"$name.txt"
    blocklist-compile build -q --allow-empty --name "$name" -o "$name.blf" "$name.txt"
}

# put FILE: replaces it by what comes in, as a whole.
put() { cat >"$1.aside"; mv "$1.aside" "$1"; }

# flip FILE AT: replaces it by itself with another byte there; less than 0 counts from its end.
flip() {
    at=$2; [ "$at" -ge 0 ] || at=$(($(stat -c %s "$1") + at))
    byte=$(od -An -tu1 -j"$at" -N1 "$1")
    cp "$1" "$1.aside"
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1.aside" bs=1 seek="$at" conv=notrunc 2>/dev/null
    mv "$1.aside" "$1"
}

# The scripts that keep lists up to date find their folders `etc` and `state` here, and the compiler.
export BLOCKLIST_MILTER_CONFIG_DIR="$PWD/etc" BLOCKLIST_MILTER_STATE_DIR="$PWD/state"
export BLOCKLIST_COMPILE="${COMPILER:-$(command -v blocklist-compile)}" CURL_CA_BUNDLE="$PWD/certificate.pem"
unset https_proxy HTTPS_PROXY ALL_PROXY
PATH=$ROOT/contrib/lib:$PATH

# fails COMMAND...: ends the session unless the command fails.
fails() { if "$@"; then echo "it does not fail: $*" >&2; exit 99; fi; }

# listed FILTER ADDRESS
listed() { blocklist-compile query "state/$1.blf" "$2" >/dev/null; }
