# Start, serve files and a pool, reload, status, stop.
case $(uname -r) in
5.10.*) ;;
*) grep -q landlock /sys/kernel/security/lsm || fail "this kernel has no Landlock, which the test is about" ;;
esac
start
dd if=/dev/zero bs=1000 count=5 2>/dev/null | tr '\0' x >/tmp/expected
serves() {
    fetch / /srv/index.html
    fetch /large /srv/large
    fetch /app/bytes/5000 /tmp/expected
}
serves
serves
maitred reload -c /etc/maitred.toml || fail "reload"
serves
maitred status -c /etc/maitred.toml >/tmp/status || fail "status"
grep -q 'reloads     1 done' /tmp/status || fail "status does not tell of the reload"
stop
