# What `systemd-analyze security` makes of the unit. What keeps it from 2.0 where the master is root: docs/systemd.md.
installed
# rated MOST: tenths
rated() {
    local line
    line=$(systemd-analyze security --no-pager $unit | tail -n 1)
    echo "$line"
    tenths=$(echo "$line" | sed -n 's/.*: \([0-9]*\)\.\([0-9]\) .*/\1\2/p')
    [ "${tenths:-100}" -le "$1" ] || fail "the unit is rated $line"
}
rated 29
install -D -m 644 /cases/unprivileged.conf /run/systemd/system/$unit.d/unprivileged.conf
systemctl daemon-reload
rated 20
rm -r /run/systemd/system/$unit.d
systemctl daemon-reload
