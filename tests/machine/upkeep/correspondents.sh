set -eu
CARGO_TARGET_DIR=/run/built contrib/install --postfix >/dev/null
lines() {
    $1 smtpd "$2: client=host[192.0.2.5], sasl_method=PLAIN, sasl_username=alice"
    $1 qmgr "$2: from=<alice@our.example>, size=500, nrcpt=1 (queue active)"
    $1 smtp "$2: to=<$2@other.example>, relay=mx.other.example[198.51.100.1]:25, delay=1, status=sent (250 ok)"
}
as_user() { runuser -u nobody -- logger --priority mail.info --tag "postfix/$1" "$2"; }
as_unit() {
    echo "$2" >/run/line
    printf '[Service]\nType=oneshot\nSyslogFacility=mail\nSyslogIdentifier=%s\nExecStart=cat /run/line\n' "postfix/$1" \
        >"/etc/systemd/system/$unit"
    systemctl daemon-reload
    systemctl restart "$unit"
}
lines as_user FORGED
for unit in postfix.service postfix@-.service sendmail.service; do
    lines as_unit "REAL${#unit}"
done
journalctl --sync
journalctl --quiet SYSLOG_FACILITY=2 | grep -q FORGED
systemctl start blocklist-correspondents.service
cat /var/lib/blocklist-milter/correspondents.txt
