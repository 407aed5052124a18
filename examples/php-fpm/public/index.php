<?php
// The front controller: it has all paths that are no file.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$name = trim((string) ($_POST['name'] ?? ''));
if ($path !== '/' && $path !== '/hello') {
    http_response_code(404);
}
?>
<!doctype html>
<title>PHP behind Maitred</title>
<link rel="stylesheet" href="/style.css">
<h1><?= http_response_code() === 404 ? 'Nothing at ' . htmlspecialchars($path) : 'PHP ' . PHP_VERSION ?></h1>
<?php if ($name !== ''): ?>
<p>Hello, <?= htmlspecialchars($name) ?>!</p>
<?php endif ?>
<form method="post" action="/hello" enctype="multipart/form-data">
    <input name="name" placeholder="Your name"> <input type="file" name="file"> <button>Send</button>
</form>
<?php foreach ($_FILES as $file): ?>
<p><?= htmlspecialchars($file['name']) ?>: <?= $file['size'] ?> bytes</p>
<?php endforeach ?>
<p><?= htmlspecialchars($_SERVER['REMOTE_ADDR']) ?>, <?= htmlspecialchars($_SERVER['SERVER_PROTOCOL']) ?></p>
