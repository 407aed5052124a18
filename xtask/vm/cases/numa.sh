# Threads have homes of their own, and those of a bucket one node (docs/affinity.md).
[ "$(cat /sys/devices/system/node/node1/cpulist)" = 4-7 ] || fail "the machine has no second node of the CPUs 4 to 7"
configure 'buckets = 2'
start
say "threads and len(threads)" | grep -qx 8 || fail "there are $(say 'len(threads)') threads"
[ "$(say "sorted(t['home_cpu'] for t in threads)")" = '[0, 1, 2, 3, 4, 5, 6, 7]' ] ||
    fail "homes: $(say "[t['home_cpu'] for t in threads]")"
[ "$(say "[len({t['home_cpu'] // 4 for t in threads[b::2]}) for b in (0, 1)]")" = '[1, 1]' ] ||
    fail "buckets over nodes: $(say "[t['home_cpu'] for t in threads]")"
stop
configure '' 'affinity = "4-7"
threads = 4'
start
[ "$(say "[t['home_cpu'] for t in threads]")" = '[4, 5, 6, 7]' ] ||
    fail "homes of a list: $(say "[t['home_cpu'] for t in threads]")"
stop
