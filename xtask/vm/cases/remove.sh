# Removal leaves the configuration, a purge nothing but the accounts, which Debian's policy lets stay.
installed
systemctl enable --now $unit || fail "it cannot be enabled"
group=/sys/fs/cgroup$(property ControlGroup)
dpkg -r maitred || fail "the package cannot be removed"
[ ! -e "$group" ] || [ -z "$(cat "$group/cgroup.procs")" ] || fail "processes are left"
[ -e /etc/maitred/maitred.toml ] || fail "removal has taken the configuration"
[ ! -e /usr/bin/maitred ] || fail "the executable is left"
dpkg -P maitred || fail "the package cannot be purged"
left=$(find /etc /usr /var /run /opt -xdev -name '*maitred*' -not -path '/var/log/journal/*')
[ -z "$left" ] || fail "this is left: $(echo $left)"
for account in $(getent passwd | sed -n 's/^\(maitred[^:]*\):.*/\1/p'); do
    getent passwd "$account" | grep -q ':/usr/sbin/nologin$' || fail "the account $account can log in"
done
