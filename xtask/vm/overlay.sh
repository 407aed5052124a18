# On overlayfs, on which containers run, it is unknown whether a file is in memory: helper threads read, and no event loop waits.
insmod /modules/overlay.ko
mkdir /tmp/upper /tmp/work /merged
mount -t overlay -o lowerdir=/srv,upperdir=/tmp/upper,workdir=/tmp/work overlay /merged || fail "no overlayfs"
sed -i 's,^root = .*,root = "/merged",' /etc/maitred.toml
start
fetch /large /srv/large
waits=$(maitred status --json -c /etc/maitred.toml | tr -d ' \n' | sed -n 's/.*"totals":{.*"disk_waits":\([0-9]*\).*/\1/p')
# One for what is not known of the path, and one for each 256 KiB.
[ "$waits" -ge 3 ] || fail "helper threads were asked $waits times"
fetch / /srv/index.html
fetch /large /srv/large
stop
