"""The dynamic part of the workload of `maitred-load specweb`, as a WSGI application (PEP 3333). README.md says what it is
asked and what it answers; app.php and the Rust example `specweb` answer the same, byte for byte.

In the manner of SPECweb99 as far as that is published; not SPECweb99.
"""

import os
import re
from urllib.parse import parse_qs

ROOT = os.path.realpath(os.environ.get("SPECWEB_ROOT", "data"))
#: Where users who register are noted, a line each.
LOG = os.environ.get("SPECWEB_LOG") or ROOT + "/post.log"
#: The only files that there are, so that no path leaves the data set.
PATH = re.compile(r"/file_set/dir\d{5}/class[0-3]_[0-8]")
BODY_BYTES_MAX = 4096
ADS = 360
#: Places of the bits of a person: gender, age, region and two interests; and how many bits each has.
TRAITS = ((28, 2), (24, 4), (20, 4), (10, 10), (0, 10))
PAGE = "<html><head><title>Dynamic page</title></head><body>\n<p>{}</p>\n<pre>\n"
PAGE_END = b"\n</pre></body></html>\n"


def mix(number):
    """A number below 2**32 that looks random; the same in every language."""
    number = number * 2654435761 & 0xFFFFFFFF
    number ^= number >> 15
    number = number * 739982445 & 0xFFFFFFFF
    return number ^ number >> 13


def person(user):
    """What is known of a user: one bit of each trait."""
    rest, bits = mix(user), 0
    for place, count in TRAITS:
        bits |= 1 << place + rest % count
        rest //= count
    return bits


def advertisement(number):
    """The group of users that it is for, the weight of each trait, and the weight that it takes to be shown."""
    weights = mix(2_000_000 + number)
    return (
        mix(1_000_000 + number),
        tuple(weights >> 4 * place & 15 for place in range(len(TRAITS))),
        25 + (weights >> 20) % 15,
    )


ADVERTISEMENTS = tuple(advertisement(number) for number in range(ADS))
MASKS = tuple((1 << count) - 1 << place for place, count in TRAITS)


def choose(user, last):
    """The first advertisement behind the last one that is for this user, and its weight."""
    bits, number, weight = person(user), last % ADS, 0
    for _ in range(ADS):
        number = (number + 1) % ADS
        wanted, weights, enough = ADVERTISEMENTS[number]
        common = wanted & bits
        weight = sum(weight for mask, weight in zip(MASKS, weights) if common & mask)
        if weight >= enough:
            break
    return number, weight


def cookie_number(cookie, name):
    """A number of the cookie; 0 for what it does not say."""
    found = re.search(rf"\b{name}=(\d{{1,9}})", cookie)
    return int(found.group(1)) if found else 0


def file_of(path):
    """The bytes of a file of the data set, or None."""
    if not PATH.fullmatch(path):
        return None
    try:
        with open(ROOT + path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def note(user, path):
    """A line in the log of users who registered; one write, so that processes do not mix theirs."""
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(log, f"{user} {path}\n".encode())
    finally:
        os.close(log)


def application(environ, start_response):
    """Answers one request."""
    fields, said, path = [], "a page", environ.get("QUERY_STRING", "")
    asked = environ["PATH_INFO"].rpartition("/")[2]
    if asked == "rotate":
        cookie = environ.get("HTTP_COOKIE", "")
        number, weight = choose(cookie_number(cookie, "user_id"), cookie_number(cookie, "last_ad"))
        image = f"/file_set/dir{number // 36:05}/class{number % 36 // 9}_{number % 9}"
        said = f'<img src="{image}">'
        fields.append(("Set-Cookie", f"found_cookie=ad_id={number}&ad_weight={weight}"))
    elif asked == "post" and environ["REQUEST_METHOD"] == "POST":
        length = min(int(environ.get("CONTENT_LENGTH") or 0), BODY_BYTES_MAX)
        form = parse_qs(environ["wsgi.input"].read(length).decode("ascii", "replace"))
        path, user = form.get("urlroot", [""])[0], form.get("user_id", [""])[0]
        said = "registered"
        if PATH.fullmatch(path) and user.isascii() and user.isdigit() and len(user) < 10:
            note(user, path)
        else:
            path = ""
    elif asked != "get":
        path = ""
    content = file_of(path)
    if content is None:
        status, body = "404 Not Found", b"no such file in the data set\n"
        fields = []
    else:
        status, body = "200 OK", PAGE.format(said).encode() + content + PAGE_END
    start_response(status, [("Content-Type", "text/html"), ("Content-Length", str(len(body))), *fields])
    return [body]
