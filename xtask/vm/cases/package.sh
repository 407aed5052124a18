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
systemctl stop $unit || fail "a stop"
is ActiveState inactive
is Result success
curl -sS --max-time 60 http://127.0.0.1/ && fail "it still serves"
true
