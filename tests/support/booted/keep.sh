cd "$1"
mkdir layer root
mount -t tmpfs -o mode=0755 tmpfs layer
mkdir layer/upper layer/work layer/prepared
mount -t overlay overlay -o lowerdir=/,upperdir=layer/upper,workdir=layer/work root
rm -rf root/etc/systemd/system/*.wants
: >root/etc/machine-id
mkdir -p root/etc/systemd/journald.conf.d root/project root/target \
    root/pristine/system root/pristine/project root/pristine/layer
printf '[Journal]\nStorage=volatile\n' >root/etc/systemd/journald.conf.d/volatile.conf
mount --bind / root/pristine/system
mount --bind layer root/pristine/layer
mount --bind "$3" root/pristine/project
mount --bind "$4" root/target
mount -o remount,bind,ro root/target
systemd-nspawn --quiet --directory=root --machine="$2" --private-network --boot \
    --register=no --keep-unit --console=pipe systemd.unit=basic.target </dev/null &
echo $! >nspawn.new && mv nspawn.new nspawn
read -r _ || true
kill -KILL "$(cat init)" || kill $!
wait
umount -R -l root
umount -l layer
cd /
rm -rf --one-file-system "$1"
