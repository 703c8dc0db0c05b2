set -eu
mkdir -p /run/guide /run/built
cat >/run/guide/cargo <<'END'
#!/bin/sh
[ "$*" = "build --release" ]
END
chmod +x /run/guide/cargo
ln -s "$PROGRAMS" /run/built/release
ln -s /target/sendmail-packages /target/exim-packages /run/guide/
cp /usr/share/postfix/main.cf.debian /etc/postfix/main.cf
postconf -e myhostname=mx.your.example 'mydestination=localhost, your.example' \
    inet_interfaces=loopback-only inet_protocols=ipv4 alias_maps= alias_database= \
    local_recipient_maps= mailbox_size_limit=0 'smtpd_relay_restrictions=permit_mynetworks,reject' \
    smtpd_peername_lookup=no mynetworks=127.0.0.0/8
chmod 644 /etc/postfix/main.cf
cd /pristine/layer
for folder in etc home opt root srv usr var; do
    mkdir -p upper/$folder && cp -a upper/$folder prepared/
done
hostname >hostname
ls -A /run >run
systemctl list-units --plain --no-legend --state=active,activating,failed | cut -d ' ' -f 1 >units
