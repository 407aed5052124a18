"""A small Flask application: what adapters/differential asks for, and a page that names it."""

import hashlib
import time

from flask import Flask, Response, jsonify, redirect, request, send_file

app = Flask(__name__)
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def pattern(count):
    """0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


@app.get("/")
def index():
    """The page."""
    links = "".join(f'<li><a href="{path}">{path}</a>' for path in ("/echo/hello?a=1", "/stream?n=1000&pieces=5", "/file"))
    return f"<!doctype html><title>Flask</title><h1>Flask behind Maitred</h1><ul>{links}</ul>"


@app.route("/echo", defaults={"rest": ""}, methods=METHODS)
@app.route("/echo/<path:rest>", methods=METHODS)
def echo(rest):
    """What the application gets; the body is read in pieces, so that it may be large."""
    count, digest = 0, hashlib.sha256()
    while piece := request.stream.read(65536):
        count += len(piece)
        digest.update(piece)
    return jsonify(
        method=request.method,
        path=request.path,
        query=request.query_string.decode("latin-1"),
        type=request.content_type or "",
        length=count,
        sha256=digest.hexdigest(),
    )


@app.get("/headers")
def headers():
    """The request's fields, as far as they are the client's."""
    known = ("host", "accept-language", "content-type")
    return jsonify(sorted(pair for pair in request.headers if pair[0].lower().startswith("x-test") or pair[0].lower() in known))


@app.get("/cookies")
def cookies():
    """The request's cookies, and two more."""
    response = jsonify({name: value for name, value in request.cookies.items()})
    response.headers.add("Set-Cookie", "a=1; Path=/; HttpOnly")
    response.set_cookie("b", "2", max_age=60, path=None)
    return response


@app.route("/bytes", methods=["GET", "POST"])
def some_bytes():
    """A body of known length."""
    return Response(pattern(request.args.get("n", 0, int)), mimetype="application/octet-stream")


@app.get("/stream")
def stream():
    """A body of unknown length, piece by piece."""
    data, number = pattern(request.args.get("n", 0, int)), request.args.get("pieces", 1, int)
    size = -(-len(data) // number) if number else 1
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return Response(pieces, mimetype="application/octet-stream")


@app.get("/status/<int:status>")
def status_of(status):
    """Any status."""
    return Response("" if status in (204, 304) else f"status {status}\n", status, mimetype="text/plain")


@app.get("/repeat")
def repeat():
    """Fields that stand twice."""
    return Response("repeat", headers=[("X-Test", "one"), ("X-Test", "two"), ("X-Other", "caf\xe9")], mimetype="text/plain")


@app.get("/redirect")
def elsewhere():
    """A redirect within the site."""
    return redirect("/bytes?n=5")


@app.get("/etag")
def etag():
    """A conditional request."""
    response = Response("version 1", mimetype="text/plain")
    response.set_etag("v1")
    response.cache_control.max_age = 60
    return response.make_conditional(request)


@app.get("/file")
def file():
    """A file, and parts of it."""
    return send_file(__file__, mimetype="text/plain", conditional=True)


@app.get("/error")
def error():
    """Fails."""
    raise RuntimeError("asked for by /error")


@app.get("/error-late")
def error_late():
    """Fails when a part of the response is out."""

    def pieces():
        yield b"first"
        raise RuntimeError("asked for by /error-late")

    return Response(pieces(), mimetype="text/plain")


@app.get("/slow")
def slow():
    """Takes its time."""
    time.sleep(request.args.get("ms", 0, int) / 1000)
    return Response("slow", mimetype="text/plain")
