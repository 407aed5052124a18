<?php
// The front controller: which script it is, and what was asked for.
if (isset($_GET['vars'])) {
    require $_SERVER['DOCUMENT_ROOT'] . '/vars.php';
    return;
}
header('Content-Type: text/plain');
echo basename(__FILE__), ' of ', basename(__DIR__), ': ', $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'];
