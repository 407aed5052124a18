#!/bin/busybox sh
# Process 1 of a machine that has nothing but a kernel, busybox and the server: prepares it, runs /test.sh and powers it off.
# The last line, `VM 0` or `VM 1 REASON`, is the result.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t securityfs security /sys/kernel/security
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
chmod 1777 /tmp
ifconfig lo 127.0.0.1 up
uname -r

log=/tmp/log
: >$log

# end RESULT: what the server said comes before it.
end() {
    trap - EXIT
    cut -c1-300 $log
    echo "VM $*"
    poweroff -f
}
fail() { end 1 "$*"; }
trap 'end 1 the script has ended before its test' EXIT

# The next word about the server: `up`, or `down` when its output has ended. A signal may interrupt the shell as it waits.
state() {
    until read -r state <&3; do :; done
}

# Starts the server with /etc/maitred.toml, and comes back when it serves.
start() {
    mkfifo /tmp/lines /tmp/states
    exec 3<>/tmp/states
    maitred run -c /etc/maitred.toml >/tmp/lines 2>&1 3>&- &
    master=$!
    {
        while read -r line; do
            echo "$line" >>$log
            case $line in *"master: admin unix"*) echo up >&3 ;; esac
        done </tmp/lines
        echo down >&3
    } &
    state
    [ "$state" = up ] || fail "the server has ended instead of starting"
}

# Ends it in an orderly way, and judges what it said.
stop() {
    kill -TERM "$master"
    wait "$master" || fail "the server ended with status $?"
    # By then everything that it wrote is in the log.
    state
    ! grep -q panic $log || fail "a panic"
    ! grep -q ' ERROR ' $log || fail "an error was logged"
}

# fetch PATH FILE: the resource at PATH is that file.
fetch() {
    wget -q -O /tmp/got "http://127.0.0.1$1" || fail "$1 was not served"
    cmp /tmp/got "$2" || fail "$1 is not $2"
}

. /test.sh
end 0
