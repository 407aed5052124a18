<?php
// Debian's files are links here; without this, WordPress would find itself where they lead to.
define('ABSPATH', __DIR__ . '/');
