<?php
// Bookmarks, with the parts that Shaarli has: Slim 3, one script for all paths, a base path that is found from SCRIPT_NAME and
// REQUEST_URI, redirects with relative addresses, and an API whose requests are signed by JSON Web Tokens.
require 'Slim/autoload.php';

const SECRET = 'a long secret of the API';
session_name('links');
session_start(['cookie_path' => dirname($_SERVER['SCRIPT_NAME']) . '/', 'cookie_httponly' => true, 'cookie_samesite' => 'Lax']);

/** All bookmarks, by their short names; `$change` gets them, and returns them. */
function links(callable $change = null): array
{
    $file = fopen(__DIR__ . '/data/links.json', 'c+');
    flock($file, $change ? LOCK_EX : LOCK_SH);
    $links = json_decode(stream_get_contents($file), true) ?: [];
    if ($change) {
        $links = $change($links);
        ftruncate($file, 0);
        rewind($file);
        fwrite($file, json_encode($links));
    }
    fclose($file);
    return $links;
}

function short(string $url): string
{
    return rtrim(strtr(base64_encode(hash('crc32b', $url, true)), '+/', '-_'), '=');
}

function added(array $given): array
{
    $link = ['url' => $given['url'], 'title' => $given['title'] ?? $given['url'], 'tags' => $given['tags'] ?? []];
    $link += ['short' => short($given['url']), 'description' => $given['description'] ?? ''];
    links(fn ($links) => [$link['short'] => $link] + $links);
    return $link;
}

/** Whether the API's token is right: HMAC-SHA512, as Shaarli's. */
function may($request): bool
{
    $parts = explode('.', preg_replace('/^Bearer /', '', $request->getHeaderLine('Authorization')));
    if (count($parts) != 3) {
        return false;
    }
    $mac = rtrim(strtr(base64_encode(hash_hmac('sha512', "$parts[0].$parts[1]", SECRET, true)), '+/', '-_'), '=');
    return hash_equals($mac, $parts[2]);
}

$app = new \Slim\App(['settings' => ['displayErrorDetails' => false, 'determineRouteBeforeAppMiddleware' => true]]);

// Pages
$page = function ($request, $response, string $title, array $links) {
    $base = $request->getUri()->getBasePath();
    $text = "<!doctype html><title>" . htmlspecialchars($title) . "</title><link rel=stylesheet href='$base/assets/style.css'>\n";
    $text .= '<p>' . htmlspecialchars($request->getUri()) . ' for ' . ($_SESSION['name'] ?? 'nobody') . "\n";
    foreach ($links as $link) {
        $text .= "<li><a href='$base/shaare/$link[short]'>" . htmlspecialchars($link['title']) . '</a> ' . htmlspecialchars($link['url']);
        $text .= ' ' . htmlspecialchars(implode(', ', $link['tags'])) . "\n";
    }
    return $response->write($text);
};
$app->get('/', function ($request, $response) use ($page) {
    $query = $request->getQueryParams();
    // Permalinks of old: `?SHORT`.
    if (preg_match('/^([\w-]{6})$/', $_SERVER['QUERY_STRING'] ?? '', $found)) {
        return $response->withStatus(302)->withHeader('Location', "./shaare/$found[1]");
    }
    $tag = $query['searchtags'] ?? null;
    $links = array_filter(links(), fn ($link) => $tag === null || in_array($tag, $link['tags'], true));
    return $page($request, $response, 'All' . ($tag === null ? '' : ": $tag"), array_slice($links, 0, 20));
});
$app->get('/shaare/{short}', function ($request, $response, $given) use ($page) {
    $link = links()[$given['short']] ?? null;
    return $link ? $page($request, $response, $link['title'], [$link]) : $response->withStatus(404)->write("no such link\n");
});
$app->get('/add-tag/{tag}', function ($request, $response, $given) {
    $place = '../?searchtags=' . urlencode(urldecode($given['tag']));
    return $response->withStatus(302)->withHeader('Location', $place);
});
$app->get('/tags/{path:.+}', fn ($request, $response, $given) => $response->withJson(['path' => $given['path']]));
$app->get('/where', function ($request, $response) {
    $names = ['SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_INFO', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING', 'REMOTE_USER'];
    $found = array_filter(array_intersect_key($_SERVER, array_flip($names)));
    ksort($found);
    $uri = $request->getUri();
    return $response->withJson(['server' => $found, 'base' => $uri->getBasePath(), 'path' => $uri->getPath(), 'uri' => "$uri"]);
});
$app->get('/feed/atom', function ($request, $response) {
    $entries = implode('', array_map(fn ($link) => '<entry><title>' . htmlspecialchars($link['title']) . '</title></entry>', links()));
    return $response->withHeader('Content-Type', 'application/atom+xml; charset=utf-8')->write("<feed>$entries</feed>\n");
});

// Those who are logged in
$app->map(['GET', 'POST'], '/login', function ($request, $response) {
    if ($request->isGet()) {
        $_SESSION['token'] ??= bin2hex(random_bytes(16));
        return $response->write("<input type=hidden name=token value=\"$_SESSION[token]\">\n");
    }
    $form = $request->getParsedBody();
    if (!hash_equals($_SESSION['token'] ?? '-', $form['token'] ?? '') || ($form['password'] ?? '') !== 'secret') {
        return $response->withStatus(401)->write("wrong\n");
    }
    session_regenerate_id();
    $_SESSION['name'] = $form['name'];
    if (isset($form['longlastingsession'])) {
        setcookie('stay', 'signed', ['expires' => 2_000_000_000, 'path' => $request->getUri()->getBasePath() . '/', 'httponly' => true]);
    }
    return $response->withStatus(302)->withHeader('Location', $form['returnurl'] ?? './');
});
$app->group('/admin', function () {
    $this->get('/logout', function ($request, $response) {
        session_destroy();
        return $response->withStatus(302)->withHeader('Location', '../');
    });
    $this->post('/shaare', function ($request, $response) {
        $form = $request->getParsedBody();
        $link = added(['tags' => preg_split('/ +/', $form['tags'] ?? '', -1, PREG_SPLIT_NO_EMPTY)] + $form);
        return $response->withStatus(302)->withHeader('Location', "../?$link[short]");
    });
    $this->post('/import', function ($request, $response) {
        $file = $request->getUploadedFiles()['filetoupload'];
        $file->moveTo(__DIR__ . '/data/import');
        $sum = hash_file('sha256', __DIR__ . '/data/import');
        return $response->withJson(['name' => $file->getClientFilename(), 'bytes' => $file->getSize(), 'sum' => $sum]);
    });
    $this->get('/export', function ($request, $response) {
        // As it comes, and not in one piece.
        while (ob_get_level()) {
            ob_end_clean();
        }
        header('Content-Type: text/plain; charset=utf-8');
        header('Content-Disposition: attachment; filename="bookmarks_all_20260101.html"');
        for ($part = 0; $part < 200; $part++) {
            echo str_repeat(sprintf("%09d\n", $part), 10_000);
            flush();
        }
        exit;
    });
})->add(function ($request, $response, $next) {
    if (!isset($_SESSION['name'])) {
        $place = $request->getUri()->getBasePath() . '/login?returnurl=' . urlencode($_SERVER['REQUEST_URI']);
        return $response->withStatus(302)->withHeader('Location', $place);
    }
    return $next($request, $response);
});

// The API
$app->group('/api/v1', function () {
    $this->get('/links', fn ($request, $response) => $response->withJson(array_values(links())));
    $this->post('/links', function ($request, $response) {
        $link = added($request->getParsedBody());
        $place = $this->get('router')->relativePathFor('link', ['short' => $link['short']]);
        return $response->withJson($link, 201)->withHeader('Location', $request->getUri()->getBasePath() . $place);
    });
    $this->get('/links/{short}', function ($request, $response, $given) {
        $link = links()[$given['short']] ?? null;
        return $link ? $response->withJson($link) : $response->withJson(['message' => 'Link not found'], 404);
    })->setName('link');
    $this->put('/links/{short}', function ($request, $response, $given) {
        $links = links(function ($links) use ($request, $given) {
            $links[$given['short']] = $request->getParsedBody() + $links[$given['short']];
            return $links;
        });
        return $response->withJson($links[$given['short']]);
    });
    $this->delete('/links/{short}', function ($request, $response, $given) {
        links(fn ($links) => array_diff_key($links, [$given['short'] => 0]));
        return $response->withStatus(204);
    });
    $this->put('/tags/{name}', fn ($request, $response, $given) => $response->withJson(['name' => $given['name']]));
})->add(fn ($request, $response, $next) => may($request) ? $next($request, $response)
    : $response->withJson(['message' => 'Not authorized'], 401)->withHeader('WWW-Authenticate', 'Bearer'));
$app->get('/error', function () {
    throw new RuntimeException('on purpose');
});
$app->run();
