# Makes Debian's configuration in a folder, as docs/exim.md says.
# sh debian-exim.sh PACKAGE PROGRAM SPLIT
set -eu
package=$1 program=$2 split=$3
cp -r "$package/etc/exim4" @DIR@/etc
cat >@DIR@/etc/update-exim4.conf.conf <<END
dc_eximconfig_configtype='internet'
dc_other_hostnames='local.test'
dc_local_interfaces='127.0.0.1.@PORT@'
dc_use_split_config='$split'
CFILEMODE='644'
END
cp "$package/usr/sbin/update-exim4.conf" @DIR@/update
echo mx.test >@DIR@/mailname
printf '%s: :blackhole:\n' reader postmaster >@DIR@/aliases
find @DIR@/etc @DIR@/update -type f -exec sed -i -e 's#/etc/\(mailname\|aliases\)#@DIR@/\1#g' -e 's#/etc/exim4#@DIR@/etc#g' \
    -e "s#/usr/sbin/exim4#$program#g" -e 's#/var/spool/exim4#@DIR@/spool#g' {} +

echo '.include @DIR@/macros' >>@DIR@/etc/exim4.conf.localmacros
cat >>@DIR@/etc/exim4.conf.localmacros <<END
MAIN_RELAY_NETS = 192.0.2.1
DC_minimaldns = 1
log_file_path = @DIR@/log/%slog
host_lookup =
END
cp @DIR@/etc/exim4.conf.localmacros @DIR@/etc/conf.d/main/000_blocklist-milter
sh @DIR@/update -d @DIR@/etc -o @DIR@/exim.conf
