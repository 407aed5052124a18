<?php
// Any status and fields.
switch ($_GET['case']) {
    case 'conflict':
        header('X-One: 1');
        header('Set-Cookie: a=1', false);
        header('Set-Cookie: b=2; HttpOnly', false);
        http_response_code(409);
        echo 'two at a time';
        break;
    case 'phrase':
        header('HTTP/1.1 404 Not Here');
        echo 'not here';
        break;
    case 'redirect':
        header('Location: /elsewhere?a=b');
        break;
    case 'length':
        header('Content-Length: 5');
        echo 'fives';
        break;
    case 'nothing':
        http_response_code(204);
        break;
    case 'unchanged':
        header('ETag: "one"');
        if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '"one"') {
            http_response_code(304);
            break;
        }
        echo 'changed';
        break;
    case 'large':
        for ($line = 0; $line < 200000; $line++) {
            printf("%015d and %079d\n", $line, $line);
        }
        break;
    case 'hops':
        header('Connection: keep-alive, X-Hop');
        header('Keep-Alive: timeout=5');
        header('X-Kept: 1');
        echo 'kept';
        break;
}
