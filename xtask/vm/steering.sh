# Eight CPUs, siblings numbered 0-1, 2-3 and so on: with `steer_by_cpu`, connections from a CPU go to the thread that lives there.
siblings=$(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list)
[ "$siblings" = 0-1 ] || fail "the siblings of CPU 0 are $siblings, and the test is about 0-1"
sed -i 's/^address = "127.*/&\nbuckets = "per-thread"\nsteer_by_cpu = true/' /etc/maitred.toml
start
# How many requests the thread of this CPU has answered.
answered() {
    maitred status --json -c /etc/maitred.toml | tr -d ' \n' | sed 's/{"accepted/\n&/g' >/tmp/threads
    sed -n "s/^{\"accepted\".*\"home_cpu\":$1,.*\"2xx\":\([0-9]*\).*/\1/p" /tmp/threads
}
for cpu in 0 1 2 3 4 5 6 7; do
    before=$(answered $cpu)
    [ -n "$before" ] || fail "no thread lives on CPU $cpu: $(cat /tmp/threads)"
    for n in 1 2 3; do
        taskset -c $cpu wget -q -O /tmp/got http://127.0.0.1/ || fail "a request from CPU $cpu"
    done
    # A thread counts an answer after it has sent it.
    tries=0
    until [ $(($(answered $cpu) - before)) = 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || fail "of 3 connections from CPU $cpu its thread got $(($(answered $cpu) - before))"
    done
done
stop
