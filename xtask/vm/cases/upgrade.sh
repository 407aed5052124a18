# A newer package is installed while clients send requests, on connections that are kept and on new ones. None may fail.
installed
systemctl restart $unit || fail "it cannot be started"
master=$(property MainPID)
before=$(stat -L -c %i /proc/"$master"/exe)
cat >/tmp/load.py <<'P'
import http.client, os, sys
keep = sys.argv[1] == "keep"
done = closed = 0
client = http.client.HTTPConnection("127.0.0.1", 80, timeout=240)
large = open("/srv/site/large", "rb").read()
while not os.path.exists("/tmp/enough"):
    try:
        client.request("GET", "/large")
        answer = client.getresponse()
    except (BrokenPipeError, ConnectionResetError):
        # The one process that goes may close a connection between two requests (RFC 9112, 9.3.1): once, and never a new one.
        closed += 1
        if not keep or closed > 1: raise
        client.close()
        continue
    assert answer.status == 200 and answer.read() == large, answer.status
    done += 1
    if done == 3: open("/tmp/under-way-" + sys.argv[1], "w").close()
    if not keep: client.close()
print(done, "requests,", closed, "connections closed between two,", sys.argv[1])
P
rm -f /tmp/enough /tmp/under-way-*
python3 /tmp/load.py keep & kept=$!
python3 /tmp/load.py new & new=$!
until [ -e /tmp/under-way-keep ] && [ -e /tmp/under-way-new ]; do
    kill -0 $kept && kill -0 $new || fail "a client has ended before the upgrade"
done
dpkg -i /cases/second.deb || fail "the newer package cannot be installed"
is ActiveState active
is MainPID "$master"
[ "$(stat -L -c %i /proc/"$master"/exe)" != "$before" ] || fail "the old executable still runs"
fetch http://127.0.0.1/ /srv/site/index.html
touch /tmp/enough
wait $kept || fail "a request on a kept connection was lost"
wait $new || fail "a request on a new connection was lost"
dpkg -s maitred | grep -q '^Version: .*+later' || fail "the newer package is not there"
systemctl stop $unit
