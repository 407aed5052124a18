# The package is installed, and its unit does what a unit is asked for.
dpkg -i /cases/first.deb || fail "the package cannot be installed"
for account in maitred maitred-acme; do
    getent passwd $account | grep -q ':/usr/sbin/nologin$' || fail "the account $account: $(getent passwd $account)"
done
[ -e /etc/maitred/maitred.toml ] || fail "the package has no configuration"
maitred check -c /etc/maitred/maitred.toml || fail "the package's configuration is refused"
is ActiveState active
is UnitFileState enabled
fetch http://127.0.0.1/ /usr/share/maitred/site/index.html
installed
systemctl restart $unit || fail "it cannot be started"
fetch http://127.0.0.1/ /srv/site/index.html
master=$(property MainPID)
systemctl reload $unit || fail "a valid reload"
is MainPID "$master"
fetch http://127.0.0.1/large /srv/site/large
systemctl restart $unit || fail "a restart"
[ "$(property MainPID)" != "$master" ] || fail "the same process is there after a restart"
fetch http://127.0.0.1/ /srv/site/index.html
# The rotation as it is shipped: the old file keeps what it has, and the process is the same.
sed -i 's,^\[server\],[log]\naccess_file = "/var/log/maitred/access.log"\n\n[server],' /etc/maitred/maitred.toml
systemctl reload $unit || fail "a reload with a log"
fetch http://127.0.0.1/ /srv/site/index.html
master=$(property MainPID)
logrotate -f /etc/logrotate.d/maitred || fail "logrotate"
until [ -e /var/log/maitred/access.log ]; do
    systemctl is-active -q $unit || fail "it has ended"
done
fetch http://127.0.0.1/large /srv/site/large
is MainPID "$master"
systemctl stop $unit || fail "a stop"
grep -q 'GET /large ' /var/log/maitred/access.log || fail "the new log has no line: $(ls -l /var/log/maitred)"
grep -q 'GET /large ' /var/log/maitred/access.log.1 && fail "the old log goes on"
grep -q 'GET / ' /var/log/maitred/access.log.1 || fail "the old log has lost its lines"
is ActiveState inactive
is Result success
curl -sS --max-time 60 http://127.0.0.1/ && fail "it still serves"
true
