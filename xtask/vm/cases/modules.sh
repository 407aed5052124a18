# The package's executable loads modules, and refuses one that others may write.
installed
cp /etc/maitred/maitred.toml /tmp/before.toml
library=/usr/local/lib/maitred/libhello.so
install -D -m 644 /cases/libhello.so $library
cat >>/etc/maitred/maitred.toml <<C

[[site.route]]
path = "/hello"
module = { path = "$library", config = { greeting = "Hello" } }
C
maitred check -c /etc/maitred/maitred.toml || fail "a configuration with a module is refused"
systemctl restart $unit || fail "it cannot be started with a module"
printf 'Hello, world\n' >/tmp/hello
fetch http://127.0.0.1/hello /tmp/hello
systemctl reload $unit || fail "a reload with a module"
fetch http://127.0.0.1/hello /tmp/hello
chmod o+w $library
maitred check -c /etc/maitred/maitred.toml && fail "a library that anyone may write is loaded"
systemctl reload $unit && fail "a reload loads a library that anyone may write"
fetch http://127.0.0.1/hello /tmp/hello
cp /tmp/before.toml /etc/maitred/maitred.toml
systemctl reload $unit || fail "a reload without the module"
rm -r /usr/local/lib/maitred
