<?php
// What PHP has made of a form, and of its files.
header('Content-Type: application/json');
$files = [];
foreach ($_FILES as $name => $file) {
    $bytes = $file['error'] === UPLOAD_ERR_OK ? file_get_contents($file['tmp_name']) : '';
    $files[$name] = ['name' => $file['name'], 'size' => $file['size'], 'error' => $file['error'], 'crc' => crc32($bytes)];
}
echo json_encode(['post' => $_POST, 'files' => $files, 'length' => $_SERVER['CONTENT_LENGTH'] ?? null]);
