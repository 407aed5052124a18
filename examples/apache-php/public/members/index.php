<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Members</title>
<link rel="stylesheet" href="/style.css">
<main><h1>Welcome, <?= htmlspecialchars($_SERVER['REMOTE_USER']) ?></h1></main>
