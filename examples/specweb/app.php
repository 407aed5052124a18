<?php
// The dynamic part of the workload of `maitred-load specweb`, in PHP, for mod_php and FastCGI. README.md says what it is asked
// and what it answers; app.py and the Rust example `specweb` answer the same, byte for byte.
//
// In the manner of SPECweb99 as far as that is published; not SPECweb99.

declare(strict_types=1);

const PATH = '~\A/file_set/dir\d{5}/class[0-3]_[0-8]\z~';
const ADS = 360;
// Places of the bits of a person: gender, age, region and two interests; and how many bits each has.
const TRAITS = [[28, 2], [24, 4], [20, 4], [10, 10], [0, 10]];

// A number below 2**32 that looks random; the same in every language.
function mix(int $number): int
{
    $number = $number * 2654435761 & 0xFFFFFFFF;
    $number ^= $number >> 15;
    $number = $number * 739982445 & 0xFFFFFFFF;
    return $number ^ ($number >> 13);
}

// What is known of a user: one bit of each trait.
function person(int $user): int
{
    $rest = mix($user);
    $bits = 0;
    foreach (TRAITS as [$place, $count]) {
        $bits |= 1 << ($place + $rest % $count);
        $rest = intdiv($rest, $count);
    }
    return $bits;
}

// The first advertisement behind the last one that is for this user, and its weight.
function choose(int $user, int $last): array
{
    $bits = person($user);
    $number = $last % ADS;
    $weight = 0;
    for ($turn = 0; $turn < ADS; $turn++) {
        $number = ($number + 1) % ADS;
        $common = mix(1000000 + $number) & $bits;
        $weights = mix(2000000 + $number);
        $weight = 0;
        foreach (TRAITS as $trait => [$place, $count]) {
            if ($common & (((1 << $count) - 1) << $place)) {
                $weight += ($weights >> (4 * $trait)) & 15;
            }
        }
        if ($weight >= 25 + ($weights >> 20) % 15) {
            break;
        }
    }
    return [$number, $weight];
}

// A number of the cookie; 0 for what it does not say.
function cookie_number(string $name): int
{
    $found = preg_match("/\\b$name=(\\d{1,9})/", $_SERVER['HTTP_COOKIE'] ?? '', $matches);
    return $found ? (int) $matches[1] : 0;
}

$root = getenv('SPECWEB_ROOT') ?: 'data';
$asked = basename((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
$path = $_SERVER['QUERY_STRING'] ?? '';
$said = 'a page';
$cookie = null;
if ($asked === 'rotate') {
    [$number, $weight] = choose(cookie_number('user_id'), cookie_number('last_ad'));
    $image = sprintf('/file_set/dir%05d/class%d_%d', intdiv($number, 36), intdiv($number % 36, 9), $number % 9);
    $said = "<img src=\"$image\">";
    $cookie = "found_cookie=ad_id=$number&ad_weight=$weight";
} elseif ($asked === 'post' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    $path = (string) ($_POST['urlroot'] ?? '');
    $user = (string) ($_POST['user_id'] ?? '');
    $said = 'registered';
    if (preg_match(PATH, $path) && preg_match('/\A\d{1,9}\z/', $user)) {
        // One write, so that processes do not mix their lines.
        $log = getenv('SPECWEB_LOG') ?: "$root/post.log";
        if (@file_put_contents($log, "$user $path\n", FILE_APPEND) === false) {
            http_response_code(500);
            exit("$log cannot be written\n");
        }
    } else {
        $path = '';
    }
} elseif ($asked !== 'get') {
    $path = '';
}
$content = preg_match(PATH, $path) ? @file_get_contents($root . $path) : false;
if ($content === false) {
    http_response_code(404);
    $body = "no such file in the data set\n";
} else {
    $body = "<html><head><title>Dynamic page</title></head><body>\n<p>$said</p>\n<pre>\n$content\n</pre></body></html>\n";
    if ($cookie !== null) {
        header("Set-Cookie: $cookie");
    }
}
header('Content-Type: text/html');
header('Content-Length: ' . strlen($body));
echo $body;
