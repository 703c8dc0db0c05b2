# Debian's Exim in place of Postfix, the daemon and its units, as docs/exim.md says.
# DAEMON is light or heavy, SPLIT true or false.
set -eu
systemctl stop postfix
export DEBIAN_FRONTEND=noninteractive
dpkg --remove --force-depends postfix
cd /run/guide/exim-packages
printf 'exim4-config exim4/dc_eximconfig_configtype select internet site; mail is sent and received directly using SMTP\nexim4-config exim4/dc_other_hostnames string local.test\nexim4-config exim4/use_split_config boolean %s\n' $SPLIT | debconf-set-selections
dpkg --install exim4-base_*.deb exim4-config_*.deb exim4-daemon-${DAEMON}_*.deb
cd /project
CARGO_TARGET_DIR=/run/built contrib/install --exim
echo '@listed.test' >/etc/blocklist-milter/lists/spammers/own.txt
systemctl enable --now blocklist-compile@spammers.path
until [ -e /var/lib/blocklist-milter/spammers.blf ]; do sleep 0.1; done
systemctl enable --now blocklist-milter.socket blocklist-milter.service
echo '.include_if_exists /usr/local/lib/blocklist-milter/exim/macros' |
    tee -a /etc/exim4/exim4.conf.localmacros >/etc/exim4/conf.d/main/000_blocklist-milter
for name in reader other; do echo "$name: :blackhole:"; done >>/etc/aliases
grep -q "^dc_use_split_config='$SPLIT'" /etc/exim4/update-exim4.conf.conf
update-exim4.conf
systemctl restart exim4
exim4 -bV | grep -q "SPF" && built=heavy || built=light
[ $built = $DAEMON ]
blocklist-milter setup-check
