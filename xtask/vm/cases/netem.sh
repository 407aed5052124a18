# A network that delays and loses packets: a download, an upload, requests on one connection, HTTP/2, HTTP/3.
modprobe sch_netem || skip "this kernel has no module sch_netem"
configure
start
tc qdisc add dev lo root netem delay 20ms 5ms loss 2% limit 10000 || fail "netem"
trap 'tc qdisc del dev lo root' EXIT
fetch http://127.0.0.1:8080/large /srv/site/large
urls=()
for n in 1 2 3 4 5 6 7 8 9 10; do urls+=(-o /dev/null http://127.0.0.1:8080/); done
made=$(curl -sS --fail --max-time 240 -w '%{num_connects} ' "${urls[@]}") || fail "requests on one connection"
[ "$made" = "1 0 0 0 0 0 0 0 0 0 " ] || fail "connections that were made: $made"
fetch http://127.0.0.1:8080/large /srv/site/large --http2-prior-knowledge
code=$(curl -sS --max-time 240 -o /dev/null -w '%{http_code}' -T /srv/site/large http://127.0.0.1:8080/large) || fail "an upload"
# A file takes no upload, but the connection has to end in order, after all that was sent.
[ "$code" = 405 ] || fail "an upload was answered with $code"
# What leaves in one piece is lost in one piece: there may be few of them, and none among those that are lost.
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  tc -s qdisc show dev lo | grep -q 'dropped [1-9]' && break
  fetch http://127.0.0.1:8080/large /srv/site/large
done
tc -s qdisc show dev lo | grep -q 'dropped [1-9]' || fail "nothing was lost"
stop
command -v gtlsclient >/dev/null || exit 0
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout /tmp/key.pem -out /tmp/certificate.pem 2>/dev/null || fail "openssl"
configure "tls = {}
http3 = true"
sed -i 's,^\[\[site\]\],&\ncertificates = [{ certificate = "/tmp/certificate.pem"\, key = "/tmp/key.pem" }],' $configuration
start
rm -rf /tmp/http3 && mkdir /tmp/http3
timeout 240 gtlsclient --quiet --exit-on-all-streams-close --download=/tmp/http3 --sni=localhost 127.0.0.1 8080 \
    https://localhost:8080/large >/tmp/http3.log 2>&1 || fail "HTTP/3: $(tail -n 5 /tmp/http3.log)"
cmp /tmp/http3/large /srv/site/large || fail "HTTP/3: the file is not what it was"
streams=$(say "status['totals']['http3_streams']")
[ "$streams" -ge 1 ] || fail "the server has seen $streams requests over HTTP/3"
stop
