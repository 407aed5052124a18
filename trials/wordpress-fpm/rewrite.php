<?php
// WordPress knows by the server's name whether addresses without index.php work, and knows only Apache, nginx and IIS.
add_filter('got_url_rewrite', '__return_true');
