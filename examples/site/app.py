"""A small WSGI application (PEP 3333): a form, what the server says about a request, and the time as JSON."""

import html
import json
import os
import time
from urllib.parse import parse_qs

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<link rel="stylesheet" href="/style.css">
<main>
<h1>{title}</h1>
{body}
<p><a href="/">Back to the files</a></p>
</main>
</html>
"""

FORM = """<form method="post" action="{action}">
<label>Your name <input name="name" value="{name}" autofocus></label>
<button>Say hello</button>
</form>
<p>Also here: <a href="{mount}/environ">what the application is told</a>, <a href="{mount}/time">the time</a>.</p>
"""


def page(title, body):
    return "200 OK", "text/html; charset=utf-8", PAGE.format(title=html.escape(title), body=body)


def hello(environ):
    """Shows the form, and greets the user who filled it in."""
    name = ""
    if environ["REQUEST_METHOD"] == "POST":
        length = int(environ.get("CONTENT_LENGTH") or 0)
        fields = parse_qs(environ["wsgi.input"].read(length).decode("utf-8", "replace"))
        name = fields.get("name", [""])[0]
    mount = environ.get("SCRIPT_NAME", "")
    form = FORM.format(action=html.escape(mount + "/"), name=html.escape(name), mount=html.escape(mount))
    return page(f"Hello, {name}!" if name else "Hello?", form)


def show_environ(environ):
    """Lists the environment of the request."""
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
        for key, value in sorted(environ.items())
        if isinstance(value, (str, int, bool, tuple))
    )
    return page("What the application gets", f"<table>{rows}</table>")


def show_time(environ):
    """The time, and which process answers."""
    now = time.time()
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    return "200 OK", "application/json", json.dumps({"time": text, "unix": now, "pid": os.getpid()}) + "\n"


ROUTES = {"": hello, "/": hello, "/environ": show_environ, "/time": show_time}


def application(environ, start_response):
    """The entry point: `python3 -m maitred app:application`."""
    handler = ROUTES.get(environ.get("PATH_INFO", ""))
    if handler is None:
        status, kind, text = "404 Not Found", "text/plain; charset=utf-8", "There is nothing here.\n"
    else:
        status, kind, text = handler(environ)
    body = text.encode("utf-8")
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]
