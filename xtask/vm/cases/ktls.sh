# TLS that the kernel encrypts. Module `tls` is loaded; more cases about it belong here.
modprobe tls || skip "this kernel has no module tls"
grep -qw tls /proc/sys/net/ipv4/tcp_available_ulp || fail "the module is there, the protocol is not"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout /tmp/key.pem -out /tmp/certificate.pem 2>/dev/null || fail "openssl"
for choice in on off; do
    configure
    sed -i "s,^address = .*,&\ntls = { ktls = \"$choice\" }," $configuration
    sed -i 's,^\[\[site\]\],&\ncertificates = [{ certificate = "/tmp/certificate.pem"\, key = "/tmp/key.pem" }],' $configuration
    start
    fetch https://localhost:8080/large /srv/site/large --cacert /tmp/certificate.pem --http1.1
    fetch https://localhost:8080/large /srv/site/large --cacert /tmp/certificate.pem --http2
    taken=$(say "status['totals']['tls_by_kernel']")
    case $choice in
    on) [ "$taken" -ge 1 ] || fail "the kernel has taken $taken connections" ;;
    off) [ "$taken" = 0 ] || fail "the kernel has taken $taken connections" ;;
    esac
    stop
done
