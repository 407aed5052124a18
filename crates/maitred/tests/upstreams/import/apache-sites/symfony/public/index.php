<?php
header('Content-Type: text/plain');
foreach (['SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_URI', 'REQUEST_METHOD'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? '', "\n";
}
