# However many buckets there are, every thread gets connections.
cat >/tmp/connect.py <<'P'
import socket
for n in range(40):
    held = [socket.create_connection(("127.0.0.1", 8080)) for n in range(16)]
    for one in held: one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for one in held: assert one.recv(100).startswith(b"HTTP/1.1 200"), n
    for one in held: one.close()
P
for buckets in 1 2 8 '"per-thread"' '"auto"'; do
    configure "buckets = $buckets"
    start
    python3 /tmp/connect.py || fail "connections with buckets = $buckets"
    accepted=$(say "[t['accepted'] for t in threads]")
    echo "buckets = $buckets: $accepted"
    [ "$(say "min(t['accepted'] for t in threads) > 0")" = True ] || fail "buckets = $buckets, accepted: $accepted"
    [ "$(say "sum(t['accepted'] for t in threads) >= 640")" = True ] || fail "buckets = $buckets, accepted: $accepted"
    stop
done
