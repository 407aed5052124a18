<?php
// Everything that PHP knows of the request.
header('Content-Type: application/json');
$found = ['server' => $_SERVER, 'get' => $_GET, 'cookie' => $_COOKIE, 'proxy' => getenv('HTTP_PROXY'),
    'prepended' => ini_get('auto_prepend_file'), 'pid' => getmypid()];
echo json_encode($found, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE);
