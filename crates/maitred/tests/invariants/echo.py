"""The application of `echo.rs` for processes: the same answers, line by line."""

import itertools
import os
import re

NOT_TOLD = {
    "connection",
    "content-length",
    "forwarded",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "range",
    "te",
    "transfer-encoding",
    "x-request-id",
    "x-request-start",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-ssl-cipher",
    "x-ssl-protocol",
}
STEERED = {
    "cc": "Cache-Control",
    "vary": "Vary",
    "etag": "ETag",
    "cookie": "Set-Cookie",
    "loc": "Location",
    "x": "X-Powered-By",
}
PADDING = "0123456789abcdefghijklmnopqrstuvwxyz padding, line by line, of what is said\n"
POOL = os.environ["POOL"]
NUMBERS = itertools.count(1)


def fields_of(environ):
    for key, value in environ.items():
        if key.startswith("HTTP_"):
            yield key[5:].lower().replace("_", "-"), value
        elif key == "CONTENT_TYPE":
            yield "content-type", value


def application(environ, start_response):
    body = environ["wsgi.input"].read()
    target = environ["REQUEST_URI"]
    query = target.partition("?")[2]
    said = {}
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if equals:
            said.setdefault(name, value)
    path, mark, _ = target.partition("?")
    target = path + mark + "&".join(sorted(part for part in query.split("&") if not part.startswith("utm_")))
    fields = dict(fields_of(environ))
    if environ.get("REMOTE_USER") and not any(name.endswith("user") for name in fields):
        fields["x-remote-user"] = environ["REMOTE_USER"]
    lines = [
        f"pool {POOL}",
        f"method {environ['REQUEST_METHOD']}",
        f"target {target}",
        f"host {fields.get('host', '-')}",
        f"body {len(body)} {sum(body)}",
    ]
    lines += [f"{name}: {value}" for name, value in sorted(fields.items()) if name not in NOT_TOLD]
    text = "\n".join(lines) + "\n"
    status = int(said.get("status", "200"))
    headers = [("X-Number", f"python-{POOL}-{os.getpid()}-{next(NUMBERS)}")]
    headers.append(("X-Told-Scheme", fields.get("x-forwarded-proto", "-")))
    headers.append(("X-Told-Pool", POOL))
    headers.append(("X-Told-Target", target))
    headers.append(("X-Told-User", environ.get("REMOTE_USER") or "-"))
    if status in (204, 304):
        text = ""
    else:
        headers.append(("Content-Type", said.get("type", "text/plain").replace("_", "/")))
        wanted = min(int(said.get("bytes", "0")), 1 << 20)
        while len(text) < wanted:
            text += PADDING
        headers.append(("Content-Length", str(len(text.encode("latin-1")))))
    for key, name in STEERED.items():
        if key in said:
            value = said[key].replace("~", "=").replace("!", '"').replace("_", ", ")
            headers.append((name, value))
    body = text.encode("latin-1")
    if "part" in said and environ["REQUEST_METHOD"] == "GET" and status == 200 and "if-range" not in fields:
        status, body = cut(fields.get("range", ""), body, headers)
    start_response(f"{status} Said", headers)
    return [body]


def cut(wanted, body, headers):
    """An application that answers ranges itself: only the plain form of them."""
    found = re.fullmatch("bytes=([0-9]+)-([0-9]+)", wanted)
    if not found or not int(found[1]) <= int(found[2]) < len(body):
        return 200, body
    first, last = int(found[1]), int(found[2])
    headers[:] = [header for header in headers if header[0] != "Content-Length"]
    headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
    headers.append(("Content-Length", str(last + 1 - first)))
    return 206, body[first : last + 1]
