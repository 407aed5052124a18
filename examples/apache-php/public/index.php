<?php
$name = trim($_POST['name'] ?? '');
$scheme = empty($_SERVER['HTTPS']) ? 'http' : 'https';
?>
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>PHP behind Maitred</title>
<link rel="stylesheet" href="/style.css">
<main>
<h1><?= $name === '' ? 'Hello?' : 'Hello, ' . htmlspecialchars($name) . '!' ?></h1>
<form method="post">
<label>Your name <input name="name" value="<?= htmlspecialchars($name) ?>" autofocus></label>
<button>Say hello</button>
</form>
<p>You are <?= htmlspecialchars($_SERVER['REMOTE_ADDR']) ?>, by <?= $scheme ?>; process <?= getmypid() ?> of Apache answers.</p>
<p><a href="/members/">For members</a> (user <code>ada</code>, password <code>lovelace</code>),
<a href="/old-name">a rewritten address</a>, <a href="/server-status">what Apache does</a>.</p>
</main>
