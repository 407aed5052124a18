<?php
// The content of the request, byte by byte.
header('Content-Type: application/octet-stream');
header('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? 'none'));
readfile('php://input');
