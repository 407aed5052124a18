# Runs the unpacked root of the image, $1, as a container does: with its own processes, network and mounts, for an account without
# privileges, and nothing of this machine but /dev. Ends well if the image's own health check was passed, and the server has ended well.
set -eu
root=$1
mkdir -p "$root/proc" "$root/dev"
ip link set lo up
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
maitred() {
    chroot --userspec=65532:65532 "$root" /usr/bin/maitred "$@" -c /etc/maitred/maitred.toml
}
chroot --userspec=65532:65532 "$root" /usr/bin/maitred run -c /etc/maitred/maitred.toml &
server=$!
until maitred status >/dev/null 2>&1; do
    kill -0 "$server"
done
echo "the health check was passed"
kill -TERM "$server"
wait "$server"
