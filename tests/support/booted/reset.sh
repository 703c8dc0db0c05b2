set -eu
cd /pristine/layer
for again in 1 2; do
    systemctl list-units --plain --no-legend --state=active,activating,failed \
        --type=service,socket,path,timer,target | cut -d ' ' -f 1 | grep -vxFf units | xargs -r systemctl stop --
done
for folder in etc home opt root srv usr var project; do
    if [ -e turn/$folder ]; then umount -l /$folder; fi
done
rm -rf turn
for folder in etc home opt root srv usr var project; do
    mkdir -p turn/$folder/upper turn/$folder/work
    lower=/pristine/layer/prepared/$folder:/pristine/system/$folder
    [ $folder != project ] || lower=/pristine/project
    mount -t overlay overlay -o lowerdir=$lower,upperdir=turn/$folder/upper,workdir=turn/$folder/work /$folder
done
systemctl daemon-reload
systemctl reset-failed
for left in $(ls -A /run | grep -vxFf run); do rm -rf "/run/$left"; done
find /tmp -mindepth 1 -maxdepth 1 ! -name '.*-unix' ! -name 'systemd-private-*' -exec rm -rf {} +
hostname -F hostname
journalctl --quiet --rotate && journalctl --quiet --vacuum-time=1us
systemctl start postfix
