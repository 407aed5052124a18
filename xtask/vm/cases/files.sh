# Files on a file system ($1), and the cache's store on it.
case $1 in
ext4) ;;
overlay) modprobe overlay || skip "this kernel has no module overlay" ;;
*) modprobe "$1" || skip "this kernel has no module $1" ;;
esac
mkdir -p /fs
if [ "$1" = overlay ]; then
    mkdir -p /tmp/lower /tmp/overlay
    mount -t tmpfs none /tmp/overlay
    mkdir /tmp/overlay/upper /tmp/overlay/work
    mount -t overlay overlay /fs \
        -o lowerdir=/tmp/lower,upperdir=/tmp/overlay/upper,workdir=/tmp/overlay/work || fail "no overlayfs"
else
    modprobe loop || skip "this kernel has no module loop"
    rm -f /var/tmp/disk
    truncate -s 320M /var/tmp/disk
    "mkfs.$1" -q /var/tmp/disk || fail "mkfs.$1"
    mount -o loop /var/tmp/disk /fs || fail "the file system cannot be mounted"
fi
[ "$(findmnt -n -o FSTYPE /fs)" = "$1" ] || fail "the file system is $(findmnt -n -o FSTYPE /fs)"
mkdir -p /fs/site /fs/cache
cp /srv/site/* /fs/site/
chown www-data /fs/cache
cat >/tmp/origin.py <<'P'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        body = b"%d\n" % Handler.asked * 20000
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8090), Handler).serve_forever()
P
configure
sed -i 's,/srv/site,/fs/site,' $configuration
cat >>$configuration <<'C'

[[site.route]]
path = "/app/*"
pool = "app"
cache = true

[pool.app]
connect = "http://127.0.0.1:8090"

[cache]
directory = "/fs/cache"
C
python3 -c 'import http.server' 2>/dev/null || skip "Python has no http.server"
python3 /tmp/origin.py & origin=$!
start
for n in 1 2; do
    fetch http://127.0.0.1:8080/ /fs/site/index.html
    fetch http://127.0.0.1:8080/large /srv/site/large
    # As if it had not been read before.
    echo 3 >/proc/sys/vm/drop_caches
done
tail -c +100001 /srv/site/large | head -c 100000 >/tmp/part
fetch http://127.0.0.1:8080/large /tmp/part -r 100000-199999
curl -sS --fail --retry 60 --retry-all-errors --retry-delay 1 -o /tmp/first http://127.0.0.1:8080/app/x ||
    fail "the application cannot be reached"
fetch http://127.0.0.1:8080/app/x /tmp/first
stored() { find /fs/cache -type f -size +10k | wc -l; }
[ "$(stored)" -ge 1 ] || fail "nothing is in the cache's directory"
stop
start
# Until the server has read its directory it may ask again; what is in the directory is the same in any case.
fetch http://127.0.0.1:8080/large /srv/site/large
echo "disk waits: $(say "status['totals'].get('disk_waits')")"
stop
kill $origin
umount /fs
