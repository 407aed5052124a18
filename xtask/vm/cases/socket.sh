# The socket belongs to systemd: the first connection starts the server, and connections wait while it is restarted.
configure
cat >/run/systemd/system/activated.socket <<'U'
[Socket]
ListenStream=127.0.0.1:8080
U
cat >/run/systemd/system/activated.service <<'U'
[Service]
Type=notify
NotifyAccess=all
TimeoutStartSec=240
ExecStart=/cases/maitred run -c /tmp/case.toml
U
systemctl daemon-reload
systemctl start activated.socket || fail "the socket cannot be started"
[ "$(systemctl is-active activated.service)" = inactive ] || fail "the server runs before there is a connection"
inode() { ss -Hltne 'sport = :8080' | sed -n 's/.* ino:\([0-9]*\).*/\1/p'; }
before=$(inode)
[ -n "$before" ] || fail "there is no socket"
fetch http://127.0.0.1:8080/ /srv/site/index.html
[ "$(systemctl is-active activated.service)" = active ] || fail "the server has not been started"
[ "$(inode)" = "$before" ] || fail "the server has made a socket of its own: $(inode)"
systemctl restart activated.service &
restart=$!
for n in 1 2 3 4 5 6; do fetch http://127.0.0.1:8080/large /srv/site/large; done
wait $restart || fail "the restart"
fetch http://127.0.0.1:8080/ /srv/site/index.html
systemctl stop activated.socket activated.service
