# For all cases: what they begin with. A case ends with 0, with `fail REASON`, or with `skip REASON`.
set -u
unit=maitred.service
# The configuration of a server that a case starts by itself, with the account www-data for the worker process.
configuration=/tmp/case.toml

fail() {
    echo "FAIL $*"
    systemctl --no-pager --full status "$unit" case.service 2>&1 | tail -n 30
    journalctl --no-pager -o short -n 40 -u "$unit" -u case.service
    echo "$*" >/tmp/reason
    exit 1
}
skip() {
    echo "$*" >/tmp/reason
    exit 77
}
# installed: the package is, and serves /srv/site
installed() {
    [ -e /usr/lib/systemd/system/$unit ] || dpkg -i /cases/first.deb || fail "the package cannot be installed"
    sed -i 's,/usr/share/maitred/site,/srv/site,' /etc/maitred/maitred.toml
    grep -q /srv/site /etc/maitred/maitred.toml || fail "the package's configuration has no site: $(cat /etc/maitred/maitred.toml)"
}
property() { systemctl show --property "$1" --value "$unit"; }
# is PROPERTY VALUE
is() { [ "$(property "$1")" = "$2" ] || fail "$1 is $(property "$1"), not $2"; }
# fetch URL FILE [CURL'S ARGUMENT…]: the resource is that file
fetch() {
    local url=$1 file=$2
    shift 2
    curl -sS --fail --max-time 240 "$@" -o /tmp/got "$url" || fail "$url cannot be fetched"
    cmp /tmp/got "$file" || fail "$url is not $file"
}
# configure [KEYS OF LISTEN] [KEYS OF SERVER]: a server of /srv/site at port 8080, in which more tables can be put
configure() {
    cat >$configuration <<C
[server]
admin = "unix:/run/case.sock"
user = "www-data"
${2:-}

[[listen]]
address = "127.0.0.1:8080"
${1:-}

[[site]]
root = "/srv/site"
C
}
# start [PROPERTY=VALUE…]: runs it as a unit of its own, and comes back when it serves
start() {
    local arguments=() property
    for property in "$@"; do arguments+=(-p "$property"); done
    systemctl reset-failed case.service 2>/dev/null
    systemd-run -q --unit=case -p Type=notify -p NotifyAccess=all -p TimeoutStartSec=240 "${arguments[@]}" \
        /cases/maitred run -c $configuration ||
        fail "the server cannot be started"
}
stop() { systemctl stop case.service || fail "the server cannot be stopped"; }
# say EXPRESSION: of the status, as Python sees it
say() {
    /cases/maitred status --json -c $configuration >/tmp/status.json || fail "there is no status"
    python3 -c "import json; status = json.load(open('/tmp/status.json')); threads = status['threads']; print($1)"
}
