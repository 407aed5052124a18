# A quota of the cgroup (cpu.max) leaves fewer threads, and a mask of processors is never widened.
configure
start CPUQuota=200%
[ "$(cut -d' ' -f1 /sys/fs/cgroup/system.slice/case.service/cpu.max)" != max ] || fail "the cgroup has no quota"
[ "$(say 'len(threads)')" = 2 ] || fail "with a quota of two CPUs there are $(say 'len(threads)') threads"
fetch http://127.0.0.1:8080/large /srv/site/large
stop
start 'CPUAffinity=1 2 5'
[ "$(say "sorted(t['home_cpu'] for t in threads)")" = '[1, 2, 5]' ] || fail "homes: $(say "[t['home_cpu'] for t in threads]")"
stop
