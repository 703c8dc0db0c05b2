zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' complete-word; \
    compadd() { [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd \"\$@\"; return }; \
    typeset -a hits; builtin compadd -A hits \"\$@\"; for hit in \$hits; do print -r -- \"
HIT:\$hit\"; done; builtin compadd \"\$@\" }; \
    ends() { print END: }; comppostfuncs=(ends); print READY:"
zpty -r z line $'*READY:\r\n*'
zpty -w -n z "$2"$'\t'
zpty -r -m z line '*END:*'
print -r -- "$line"
zpty -d z
