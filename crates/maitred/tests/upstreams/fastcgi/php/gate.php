<?php
// Waits where the test says, in one of several ways.
function gate() {
    $gate = stream_socket_client('tcp://' . $_GET['gate']);
    fwrite($gate, getmypid() . "\n");
    fgets($gate);
}
header('Content-Type: text/plain');
header('X-Accel-Buffering: no');
switch ($_GET['case']) {
    case 'wait':
        gate();
        echo 'waited';
        break;
    case 'halves':
        echo "first half\n";
        flush();
        gate();
        echo "second half\n";
        break;
    case 'endless':
        // Whether the client has gone PHP learns where it writes.
        register_shutdown_function('gate');
        if (isset($_GET['silent'])) {
            gate();
        }
        while (true) {
            echo "again\n";
            flush();
            usleep(1000);
        }
}
