# Without IPv6: addresses of IPv4 are served, the default address too, and an address of IPv6 is refused with a reason.
[ ! -e /proc/net/if_inet6 ] || fail "this machine has IPv6"
configure
start
fetch http://127.0.0.1:8080/large /srv/site/large
stop
sed -i 's/^address = .*/address = ":8080"/' $configuration
start
fetch http://127.0.0.1:8080/ /srv/site/index.html
stop
sed -i 's/^address = .*/address = "[::1]:8080"/' $configuration
/cases/maitred run -c $configuration >/tmp/said 2>&1 && fail "an address of IPv6 is served without IPv6"
cat /tmp/said
grep -q '\[::1\]:8080' /tmp/said || fail "the error does not name the address"
