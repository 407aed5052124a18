# Runs the cases of this machine, one after the other. Each ends with a line `CASE NAME STATUS SECONDS REASON`, all with `VM 0`.
exec >/dev/ttyS0 2>&1
now() { cut -d. -f1 /proc/uptime; }
uname -r
systemctl --version | head -n 1
mkdir -p /srv/site
echo hello >/srv/site/index.html
head -c 300007 /dev/urandom >/srv/site/large
ip link set lo up
while read -r name argument; do
    began=$(now)
    rm -f /tmp/reason
    timeout 600 bash -c ". /cases/lib.sh; . /cases/$name.sh" "$name" "$argument" >/tmp/output 2>&1 </dev/null
    status=$?
    case $status in
    0 | 77) ;;
    *) cut -c1-300 /tmp/output | tail -n 120 ;;
    esac
    [ $status != 124 ] || echo "no end after 600 s" >/tmp/reason
    systemctl stop case.service 2>/dev/null
    echo "CASE $name $status $(($(now) - began)) $(head -n 1 /tmp/reason 2>/dev/null)"
done </cases/list
echo "VM 0"
systemctl poweroff -f -f
