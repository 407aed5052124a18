# The installed unit under a whole systemd: start, reload, refusal, restart, failure, what is in the journal, and programs that
# compile while they run under its restrictions. The last line, `VM 0` or `VM 1 REASON`, is the result.
exec >/dev/ttyS0 2>&1
trap 'end 1 the script has ended before its test' EXIT
unit=maitred.service
configuration=/etc/maitred/maitred.toml

# end RESULT
end() {
    trap - EXIT
    echo "VM $*"
    systemctl poweroff -f -f
}
fail() {
    systemctl --no-pager --full status "$unit"
    journalctl --no-pager -o short -u "$unit" | tail -n 60
    end 1 "$*"
}
step() { echo "-- $*, $(cut -d. -f1 /proc/uptime) s"; }
property() { systemctl show --property "$1" --value "$unit"; }
# is PROPERTY VALUE
is() { [ "$(property "$1")" = "$2" ] || fail "$1 is $(property "$1"), not $2"; }
# fetch URL TEXT: there, or soon. What is started may need long for its first steps, as all of this is emulated.
fetch() {
    local got
    got=$(curl -sS --max-time 240 --retry 240 --retry-delay 1 --retry-all-errors --retry-max-time 240 "$1") || fail "$1 cannot be fetched"
    [ "$got" = "$2" ] || fail "$1 says $got"
}
serves() {
    fetch http://127.0.0.1/ hello
    fetch http://127.0.0.1/app/bytes/5 xxxxx
}
# The word of a program that compiles, under the unit and the restrictions that it would not survive.
survives() { fetch "$1" compiled; }
# status_of PID FIELD: of the process
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
# pid_of NAME: of the only process of the unit that is called so
pid_of() {
    local pid
    for pid in $(cat "/sys/fs/cgroup$(property ControlGroup)/cgroup.procs"); do
        [ "$(cat "/proc/$pid/comm")" = "$1" ] && echo "$pid"
    done
}

systemctl --version | head -n 1
/usr/bin/maitred --version || end 77 "what was built on this machine does not run there: $(/usr/bin/maitred --version 2>&1 | head -n 1)"

step accounts
systemd-sysusers || fail "systemd-sysusers"
for account in maitred maitred-acme; do
    getent passwd $account | grep -q ':/usr/sbin/nologin$' || fail "the account $account: $(getent passwd $account)"
done
[ "$(id -u maitred)" != "$(id -u maitred-acme)" ] || fail "both accounts are one"
systemd-tmpfiles --create maitred.conf || fail "systemd-tmpfiles"

step start
systemctl daemon-reload
systemctl start "$unit" || fail "it cannot be started"
is ActiveState active
is StatusText serving
serves
master=$(property MainPID)
[ "$(ps -o user= -p "$(pid_of maitred-worker)")" = maitred ] || fail "the worker process belongs to another account"
for pid in "$master" "$(pid_of maitred-worker)" "$(pid_of worker)"; do
    [ "$(status_of "$pid" NoNewPrivs)" = 1 ] || fail "process $pid may gain privileges"
    [ "$(status_of "$pid" Seccomp)" = 2 ] || fail "process $pid may make any system call"
done
for name in maitred-worker worker; do
    [ "$(status_of "$(pid_of "$name")" CapEff)" = 0000000000000000 ] || fail "$name has capabilities"
done

step reload
worker=$(pid_of maitred-worker)
systemctl reload "$unit" || fail "a valid reload"
is StatusText serving
is MainPID "$master"
[ "$(pid_of maitred-worker | grep -c "^$worker\$")" = 0 ] || [ "$(pid_of maitred-worker | wc -l)" = 2 ] || fail "no worker process has taken over"
maitred status -c $configuration | grep -q 'reloads     1 done' || fail "status does not tell of the reload"
serves

step a reload that is refused
cp $configuration /root/good.toml
echo 'no_such_key = 1' >>$configuration
systemctl reload "$unit" && fail "a reload of a broken configuration succeeds"
is ActiveState active
is MainPID "$master"
case $(property StatusText) in
"serving; reload refused: "*no_such_key*) ;;
*) fail "StatusText is $(property StatusText)" ;;
esac
systemctl status --no-pager "$unit" | grep -q 'reload refused' || fail "systemctl status does not say it"
serves
cp /root/good.toml $configuration
systemctl reload "$unit" || fail "a reload of the mended configuration"
is StatusText serving

# Time enough for what is slow here only because it is emulated.
step a reload that takes longer than a start may
cat >>$configuration <<'C'

[pool.slow]
command = ["sh", "-c", "read line </run/gate; exec /usr/local/bin/worker"]
user = "www-data"
workers = 1
start_timeout = "10m"
C
mkfifo -m 644 /run/gate
mkdir -p "/run/systemd/system/$unit.d"
printf '[Service]\nTimeoutStartSec=30\n' >"/run/systemd/system/$unit.d/short.conf"
systemctl daemon-reload
systemctl reload "$unit" &
reload=$!
until case $(property StatusText) in *'pool "slow"'*) true ;; *) false ;; esac; do
    kill -0 $reload 2>/dev/null || fail "the reload did not wait for its pool"
done
began=$(cut -d. -f1 /proc/uptime)
until [ $(($(cut -d. -f1 /proc/uptime) - began)) -ge 40 ]; do
    kill -0 $reload 2>/dev/null || fail "the reload did not wait for its pool"
    read -r -t 1 </dev/zero
done
echo go >/run/gate
wait $reload || fail "a valid reload that takes its time"
is StatusText serving
rm "/run/systemd/system/$unit.d/short.conf" /run/gate
cp /root/good.toml $configuration
systemctl daemon-reload
systemctl reload "$unit" || fail "a reload without the slow pool"

step upgrade
maitred upgrade -c $configuration || fail "an upgrade"
is ActiveState active
is MainPID "$master"
is StatusText serving
serves

step journal
journalctl -q -o cat -p err -u "$unit" | grep -q no_such_key || fail "the refusal is no error in the journal"
journalctl -q -o cat -p info..info -u "$unit" | grep -q 'has taken over' || fail "the reload is no information in the journal"
journalctl -q -o cat -p err -u "$unit" | grep -q 'has taken over' && fail "all is an error in the journal"
journalctl -q -o cat -u "$unit" | grep -q '^20[0-9][0-9]-' && fail "lines in the journal have a second time"
journalctl -q -o cat -u "$unit" | grep -q '^<[0-7]>' && fail "priorities are part of the text"

step restart
systemctl restart "$unit" || fail "restart"
is ActiveState active
[ "$(property MainPID)" != "$master" ] || fail "the same process is there after a restart"
serves
is NRestarts 0

step a master that dies
kill -KILL "$(property MainPID)"
until [ "$(property NRestarts)" = 1 ] && [ "$(property ActiveState)" = active ]; do
    [ "$(property ActiveState)" != failed ] || fail "it is not started again"
done
serves

step stop
group=/sys/fs/cgroup$(property ControlGroup)
systemctl stop "$unit" || fail "stop"
is ActiveState inactive
is Result success
[ ! -e "$group" ] || [ -z "$(cat "$group/cgroup.procs")" ] || fail "processes are left"
curl -sS --max-time 60 http://127.0.0.1/ && fail "it still serves"

step a broken configuration
echo 'no_such_key = 1' >>$configuration
systemctl start "$unit" && fail "a broken configuration is started"
# Otherwise it would be activating (auto-restart), or have been restarted.
is ActiveState failed
is SubState failed
is Result exit-code
is ExecMainStatus 2
is NRestarts 0
cp /root/good.toml $configuration
systemctl reset-failed "$unit"

step certificates
cat /root/acme.toml >>$configuration
systemctl start "$unit" || fail "it cannot be started"
until [ -e /var/lib/maitred/lock ]; do
    [ "$(property ActiveState)" = active ] || fail "it has ended"
done
[ "$(stat -c '%U %a' /var/lib/maitred)" = 'maitred-acme 700' ] || fail "the state directory: $(stat -c '%U %a' /var/lib/maitred)"
[ "$(ps -o user:20= -p "$(pid_of maitred-acme)")" = maitred-acme ] || fail "the process for certificates belongs to another account"
# The master reads what that process has got.
systemctl reload "$unit" || fail "a reload with automatic certificates"
systemctl stop "$unit" || fail "stop"
cp /root/good.toml $configuration

step compilers
cat /root/compilers.toml >>$configuration
systemctl start "$unit" || fail "it cannot be started"
survives http://127.0.0.1:9003/
step PHP
survives http://127.0.0.1/php/
step Java
survives http://127.0.0.1/java/
for name in node php java; do
    pid=$(pid_of $name | head -n 1)
    [ "$(status_of "${pid:-1}" Seccomp)" = 2 ] && [ "$(status_of "$pid" NoNewPrivs)" = 1 ] || fail "$name is not restricted"
    [ "$(ps -o user= -p "$pid")" = www-data ] || fail "$name belongs to another account"
done
# What they would not survive, so that this test is about something.
systemd-run -q --wait -p MemoryDenyWriteExecute=yes node -e 0 && fail "Node.js runs where nothing can be compiled"
systemctl stop "$unit" || fail "stop"

step not root
cp /root/good.toml $configuration
mkdir -p "/etc/systemd/system/$unit.d"
cp /root/unprivileged.conf "/etc/systemd/system/$unit.d/"
systemctl daemon-reload
systemctl start "$unit" || fail "it cannot be started without root"
serves
master=$(property MainPID)
[ "$(status_of "$master" CapEff)" = 0000000000000400 ] || fail "the master has the capabilities $(status_of "$master" CapEff)"
for name in maitred-worker worker; do
    [ "$(status_of "$(pid_of "$name")" CapEff)" = 0000000000000000 ] || fail "$name has capabilities"
done
for pid in $(cat "/sys/fs/cgroup$(property ControlGroup)/cgroup.procs"); do
    [ "$(ps -o user= -p "$pid")" = maitred ] || fail "process $pid belongs to another account"
done
systemctl reload "$unit" || fail "a valid reload without root"
is MainPID "$master"
serves
maitred upgrade -c $configuration || fail "an upgrade without root"
is MainPID "$master"
[ "$(status_of "$master" CapEff)" = 0000000000000400 ] || fail "the upgraded master has the capabilities $(status_of "$master" CapEff)"
serves
echo 'no_such_key = 1' >>$configuration
systemctl reload "$unit" && fail "a reload of a broken configuration succeeds without root"
serves
systemctl stop "$unit" || fail "stop"
is Result success
end 0
