"""The dynamic part of the workload of `maitred-load specweb`, as a WSGI application (PEP 3333).

Three requests, each of which names a file of the data set and answers with a page made of it:

- ``GET  /get?PATH``: the page.
- ``GET  /rotate?PATH`` with a cookie ``user_id=N; last_ad=N``: the page, and a cookie with the advertisement chosen for
  this user.
- ``POST /post`` with ``urlroot=PATH&user_id=N``: notes the user, answers the page.

In the manner of SPECweb99 as far as that is published; not SPECweb99.
"""

import os
import re
from urllib.parse import parse_qs

ROOT = os.path.realpath(os.environ.get("SPECWEB_ROOT", "data"))
#: The only files that there are, so that no path leaves the data set.
PATH = re.compile(r"/file_set/dir\d{5}/class[0-3]_[0-8]")
BODY_BYTES_MAX = 4096
ADS = 360
HEAD = "<html><head><title>Dynamic page</title></head><body><p>{}</p><pre>\n"
TAIL = "\n</pre></body></html>\n"
#: Users who registered, by process; the last so many.
REGISTERED = []
REGISTERED_MAX = 1000


def advertisement(user, last):
    """The next advertisement for a user: never the one that they saw last."""
    chosen = (user * 7 + last + 1) % ADS
    return (chosen + 1) % ADS if chosen == last else chosen


def numbers(cookie):
    """User and last advertisement of a cookie; 0 for what it does not say."""
    found = dict(re.findall(r"(user_id|last_ad)=(\d{1,9})", cookie))
    return int(found.get("user_id", 0)), int(found.get("last_ad", 0))


def file_of(path):
    """The bytes of a file of the data set, or None."""
    if not PATH.fullmatch(path):
        return None
    try:
        with open(ROOT + path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def application(environ, start_response):
    """Answers one request."""
    fields, said, path = [], "get", environ.get("QUERY_STRING", "")
    if environ["PATH_INFO"] == "/rotate":
        user, last = numbers(environ.get("HTTP_COOKIE", ""))
        chosen = advertisement(user, last)
        fields.append(("Set-Cookie", f"user_id={user}; last_ad={chosen}"))
        said = f"advertisement {chosen}"
    elif environ["PATH_INFO"] == "/post" and environ["REQUEST_METHOD"] == "POST":
        length = min(int(environ.get("CONTENT_LENGTH") or 0), BODY_BYTES_MAX)
        form = parse_qs(environ["wsgi.input"].read(length).decode("ascii", "replace"))
        path = form.get("urlroot", [""])[0]
        REGISTERED.append(form.get("user_id", [""])[0])
        del REGISTERED[:-REGISTERED_MAX]
        said = "registered"
    elif environ["PATH_INFO"] != "/get":
        path = ""
    content = file_of(path)
    if content is None:
        status, body = "404 Not Found", b"no such file in the data set\n"
    else:
        status, body = "200 OK", HEAD.format(said).encode() + content + TAIL.encode()
    start_response(status, [("Content-Type", "text/html"), ("Content-Length", str(len(body))), *fields])
    return [body]
