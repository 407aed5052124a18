<?php
error_log('a note of the script');
if (isset($_GET['late'])) {
    echo str_repeat('the beginning ', 1000);
    flush();
}
no_such_function();
