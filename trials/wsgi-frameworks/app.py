"""The same small site in Bottle, Falcon, Pyramid and CherryPy, each below its name; and what PEP 3333 allows below `/plain`."""

import hashlib
import io
import os
import sys
import threading
from pathlib import Path

import bottle
import cherrypy
import falcon
from pyramid.config import Configurator
from pyramid.response import FileIter, FileResponse, Response
from pyramid.session import SignedCookieSessionFactory
from werkzeug.middleware.dispatcher import DispatcherMiddleware

HOME, HERE = Path(os.environ["HOME"]), Path(__file__).resolve().parent
BIG = HOME / "big.bin"
BIG.write_bytes(bytes(range(256)) * 40_000)
EVENTS, GONE = {}, []


def _told(name, file):
    data = file.read()
    return {"name": name, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _event(name):
    return EVENTS.setdefault(name, threading.Event())


# Bottle

site = bottle.Bottle()


@site.post("/upload")
def bottle_upload():
    file = bottle.request.files.get("file")
    return {**_told(file.raw_filename, file.file), "title": bottle.request.forms.getunicode("title")}


@site.route("/raw", method=["POST", "PUT", "DELETE"])
def bottle_raw():
    return {"length": len(bottle.request.body.read()), "stated": bottle.request.content_length}


@site.get("/file")
def bottle_file():
    return bottle.static_file(BIG.name, root=HOME, download="Bücher.bin")


@site.get("/seen")
def bottle_seen():
    request = bottle.request
    bottle.response.set_cookie("signed", "value", secret="not a secret")
    bottle.response.set_cookie("plain", "value")
    return {"url": request.url, "address": request.remote_addr, "path": request.path, "script": request.script_name, **request.query}


@site.get("/stream")
def bottle_stream():
    name = bottle.request.query.name
    try:
        yield f"one for {name}\n"
        while not _event(name).wait(0.05):
            yield "."
        yield "\ntwo\n"
    finally:
        GONE.append(name)


@site.get("/tell")
def bottle_tell():
    _event(bottle.request.query.name).set()
    return {"gone": GONE}


@site.get("/broken")
def bottle_broken():
    raise RuntimeError("on purpose")


@site.get("/redirect")
def bottle_redirect():
    bottle.redirect("seen")


@site.get("/closed")
@bottle.auth_basic(lambda _, word: word == "secret")
def bottle_closed():
    return "open\n"


# Falcon


class Thing:
    """A resource."""

    def on_get(self, request, response):
        response.media = {"uri": request.uri, "path": request.path, "address": request.remote_addr, "prefix": request.prefix}
        response.set_cookie("name", "value", secure=False)

    def on_post(self, request, response):
        parts = request.get_media()
        response.media = [_told(part.secure_filename if part.filename else part.name, part.stream) for part in parts]

    def on_put(self, request, response):
        response.media = {"length": len(request.bounded_stream.read()), "stated": request.content_length}

    on_patch = on_put


class Stream:
    """A file, which Maitred sends."""

    def on_get(self, request, response):
        if request.params:
            response.stream = BIG.open("rb")
        else:
            response.set_stream(BIG.open("rb"), BIG.stat().st_size)


api = falcon.App()
api.add_route("/thing", Thing())
api.add_route("/stream", Stream())
api.add_static_route("/static", str(HERE))

# Pyramid


def pyramid_seen(request):
    request.session["count"] = request.session.get("count", 0) + 1
    return {"url": request.url, "root": request.application_url, "address": request.client_addr, "count": request.session["count"]}


def pyramid_upload(request):
    file = request.POST["file"]
    return _told(file.filename, file.file)


def pyramid_raw(request):
    return {"length": len(request.body), "stated": request.content_length}


def pyramid_file(request):
    return FileResponse(str(BIG), request=request)


def pyramid_pieces(_):
    return Response(app_iter=FileIter(BIG.open("rb")), content_type="application/octet-stream")


def _pyramid():
    with Configurator(session_factory=SignedCookieSessionFactory("not a secret")) as config:
        for view in (pyramid_seen, pyramid_upload, pyramid_raw, pyramid_file, pyramid_pieces):
            name = view.__name__.removeprefix("pyramid_")
            config.add_route(name, f"/{name}")
            config.add_view(view, route_name=name, **({} if name in ("file", "pieces") else {"renderer": "json"}))
        config.add_static_view("static", str(HERE))
        return config.make_wsgi_app()


# CherryPy


class Pages:
    """CherryPy answers 411 to a POST without a length."""

    @cherrypy.expose
    def index(self):
        return f"{cherrypy.url()} {cherrypy.request.remote.ip}\n"

    @cherrypy.expose
    def upload(self, file, title=None):
        return f"{title} {_told(file.filename, file.file)}"

    @cherrypy.expose
    def raw(self):
        return str(len(cherrypy.request.body.read()))

    @cherrypy.expose
    def lines(self):
        cherrypy.response.headers["Content-Type"] = "text/plain"
        return (f"line {number}\n" * 100 for number in range(1000))

    lines._cp_config = {"response.stream": True}

    @cherrypy.expose
    def file(self):
        return cherrypy.lib.static.serve_file(str(BIG), "application/octet-stream", "attachment")

    @cherrypy.expose
    def count(self):
        cherrypy.session["count"] = cherrypy.session.get("count", 0) + 1
        return str(cherrypy.session["count"])

    @cherrypy.expose
    def redirect(self):
        raise cherrypy.HTTPRedirect("/cherrypy/")


cherrypy.config.update({"environment": "embedded", "log.screen": False, "engine.autoreload.on": False, "server.max_request_body_size": 0})
pages = cherrypy.Application(Pages(), "/cherrypy", {"/": {"tools.sessions.on": True, "tools.gzip.on": True}})

# WSGI itself


def _write(_, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    write(b"one\n")
    write(b"two\n")
    return [b"three\n"]


def _part(environ, start_response):
    file = BIG.open("rb")
    file.seek(1000)
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", "5000")])
    return environ["wsgi.file_wrapper"](file)


def _no_file(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"x" * 100_000))


def _input(environ, start_response):
    body = environ["wsgi.input"]
    read = [body.readline(), body.readline(5), *body.readlines()]
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return [b"|".join(read)]


def _changed(_, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        raise ValueError("on purpose")
    except ValueError:
        start_response("418 Changed", [("Content-Type", "text/html")], sys.exc_info())
    return [b"changed"]


def _empty_pieces(_, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"", b"", b"x", b""])


_PLAIN = {"write": _write, "part": _part, "no-file": _no_file, "input": _input, "changed": _changed, "empty-pieces": _empty_pieces}


def plain(environ, start_response):
    """Whatever PEP 3333 allows."""
    page = _PLAIN.get(environ["PATH_INFO"].strip("/"))
    if page is not None:
        return page(environ, start_response)
    start_response("404 No Such Thing", [("X-Twice", "1"), ("X-Twice", "2")])
    return [b"nothing"]


_mounts = DispatcherMiddleware(plain, {"/bottle": site, "/falcon": api, "/pyramid": _pyramid(), "/plain": plain})


def application(environ, start_response):
    """CherryPy takes its part of the path away itself."""
    if environ["PATH_INFO"].startswith("/cherrypy"):
        return pages(environ, start_response)
    return _mounts(environ, start_response)
