# TLS that the kernel encrypts: by curl, and by the tests of the repository that are about it.
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
MAITRED_TEST_KTLS=1 /cases/sys-tests ktls:: || fail "tests of the system calls"
cp -r /cases/repository/. / || fail "the tests cannot be copied to their place"
cd "$(cat /cases/tls-tests.directory)" || fail "there is no place for the tests"
MAITRED_TEST_BINARY=/cases/maitred MAITRED_TEST_KTLS=1 timeout 600 /cases/tls-tests kernel:: --test-threads 2 ||
    fail "tests of TLS by the kernel"
