<?php
// The application of the differential test (adapters/differential/README.md), as a page.

$path = explode('?', $_SERVER['REQUEST_URI'], 2)[0];
$first = explode('/', $path)[1] ?? '';

function pattern(int $count): string
{
    static $period = '';
    $period = $period ?: implode('', array_map('chr', range(0, 250)));
    return str_repeat($period, intdiv($count, 251)) . substr($period, 0, $count % 251);
}

// Each byte as one character, if they are no UTF-8.
function latin1(string $bytes): string
{
    return preg_match('//u', $bytes) ? $bytes : iconv('ISO-8859-1', 'UTF-8', $bytes);
}

function answer(string $body, int $status = 200, string $kind = 'text/plain'): void
{
    // Apache has no text of its own for this one.
    $status === 418 ? header("HTTP/1.1 418 I'm a Teapot") : http_response_code($status);
    if ($status !== 204 && $status !== 304) {
        header("Content-Type: $kind");
        header('Content-Length: ' . strlen($body));
        echo $body;
    }
}

function json(array $value): void
{
    ksort($value);
    answer(json_encode((object) $value, JSON_UNESCAPED_SLASHES), 200, 'application/json');
}

switch ($first) {
    case 'echo':
        $body = file_get_contents('php://input');
        json([
            'method' => $_SERVER['REQUEST_METHOD'], 'path' => latin1(rawurldecode($path)), 'query' => $_SERVER['QUERY_STRING'],
            'type' => $_SERVER['CONTENT_TYPE'] ?? '', 'length' => strlen($body), 'sha256' => hash('sha256', $body),
        ]);
        break;
    case 'headers':
        $known = ['HTTP_HOST', 'HTTP_ACCEPT_LANGUAGE', 'CONTENT_TYPE'];
        $wanted = fn($name) => str_starts_with($name, 'HTTP_X_TEST') || in_array($name, $known, true);
        json(array_filter($_SERVER, $wanted, ARRAY_FILTER_USE_KEY));
        break;
    case 'cookies':
        header('Set-Cookie: a=1; Path=/; HttpOnly');
        header('Set-Cookie: b=2; Max-Age=60', false);
        $pairs = explode('; ', $_SERVER['HTTP_COOKIE'] ?? '');
        json(array_column(array_map(fn($pair) => explode('=', $pair, 2), array_filter($pairs)), 1, 0));
        break;
    case 'bytes':
        answer(pattern((int) $_GET['n']), 200, 'application/octet-stream');
        break;
    case 'stream':
        header('Content-Type: application/octet-stream');
        $data = pattern((int) $_GET['n']);
        $size = $_GET['pieces'] > 0 ? -intdiv(-strlen($data), (int) $_GET['pieces']) : 1;
        foreach ($data === '' ? [] : str_split($data, max($size, 1)) as $piece) {
            echo $piece;
            flush();
        }
        break;
    case 'status':
        $status = (int) explode('/', $path)[2];
        answer("status $status\n", $status);
        break;
    case 'repeat':
        header('X-Test: one');
        header('X-Test: two', false);
        header("X-Other: caf\xe9");
        answer('repeat');
        break;
    case 'redirect':
        header('Location: /bytes?n=5');
        answer('', 302);
        break;
    case 'etag':
        header('ETag: "v1"');
        header('Cache-Control: max-age=60');
        answer('version 1', ($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '"v1"' ? 304 : 200);
        break;
    case 'error':
        throw new RuntimeException('asked for by /error');
    case 'error-late':
        // Without its length, PHP ends the response as if it were whole.
        header('Content-Type: text/plain');
        header('Content-Length: 1000');
        echo 'first';
        flush();
        throw new RuntimeException('asked for by /error-late');
    case 'hop':
        header('Connection: keep-alive');
        header('Keep-Alive: timeout=5');
        header('Proxy-Connection: keep-alive');
        answer('hop');
        break;
    case 'slow':
        usleep(1000 * (int) $_GET['ms']);
        answer('slow');
        break;
    default:
        answer('missing', 404);
}
