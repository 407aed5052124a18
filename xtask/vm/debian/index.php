<?php
// Says whether opcache has compiled the loop below while it ran: the first request is the one that counts.
function free(): int
{
    return opcache_get_status(false)['jit']['buffer_free'];
}

$before = free();
$total = 0;
for ($i = 0; $i < 100000; $i++) {
    $total = ($total + $i * $i) % 1000003;
}
echo opcache_get_status(false)['jit']['on'] && free() < $before ? "compiled\n" : "interpreted\n";
