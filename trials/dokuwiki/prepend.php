<?php
// Debian's DokuWiki takes it from /etc, for all sites.
define('DOKU_CONF', __DIR__ . '/conf/');
