<?php
header("Content-Type: text/plain");
foreach (["SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"] as $name) {
    echo $name, "=", $_SERVER[$name] ?? "", "\n";
}
