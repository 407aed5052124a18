"""A small Django application in one file: what adapters/differential asks for, and a page that names it."""

import hashlib
import json
import os
import time

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.urls import path, re_path
from django.views.decorators.http import etag

settings.configure(
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    # For an example; a real one comes from the environment, and is secret.
    SECRET_KEY=os.environ.get("SECRET_KEY", "an example has no secrets"),
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    APPEND_SLASH=False,
)
django.setup()


def pattern(count):
    """0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


def text(body, status=200):
    """A response of plain text."""
    return HttpResponse(body, status=status, content_type="text/plain")


def index(request):
    """The page."""
    links = "".join(f'<li><a href="{link}">{link}</a>' for link in ("/echo/hello?a=1", "/stream?n=1000&pieces=5"))
    return HttpResponse(f"<!doctype html><title>Django</title><h1>Django behind Maitred</h1><ul>{links}</ul>")


def echo(request):
    """What the application gets; the body is read in pieces, so that it may be large."""
    count, digest = 0, hashlib.sha256()
    while piece := request.read(65536):
        count += len(piece)
        digest.update(piece)
    said = {
        "method": request.method,
        "path": request.path,
        "query": request.META["QUERY_STRING"],
        "type": request.META.get("CONTENT_TYPE", ""),
        "length": count,
        "sha256": digest.hexdigest(),
    }
    return JsonResponse(said)


def headers(request):
    """The request's fields, as far as they are the client's."""
    known = ("host", "accept-language", "content-type")
    pairs = [(name.lower(), value) for name, value in request.headers.items()]
    return JsonResponse(sorted(pair for pair in pairs if pair[0].startswith("x-test") or pair[0] in known), safe=False)


def cookies(request):
    """The request's cookies, and two more."""
    response = HttpResponse(json.dumps(request.COOKIES), content_type="application/json")
    response.set_cookie("a", "1", httponly=True)
    response.set_cookie("b", "2", max_age=60)
    return response


def some_bytes(request):
    """A body of known length."""
    return HttpResponse(pattern(int(request.GET["n"])), content_type="application/octet-stream")


def stream(request):
    """A body of unknown length, piece by piece."""
    data, number = pattern(int(request.GET["n"])), int(request.GET["pieces"])
    size = -(-len(data) // number) if number else 1
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return StreamingHttpResponse(pieces, content_type="application/octet-stream")


def status_of(request, status):
    """Any status."""
    return HttpResponse(status=status) if status == 204 else text(f"status {status}\n", status)


def repeat(request):
    """A field with two values: Django has one line for each name."""
    response = text("repeat")
    response["X-Test"] = "one, two"
    return response


@etag(lambda request: '"v1"')
def conditional(request):
    """A conditional request."""
    response = text("version 1")
    response["Cache-Control"] = "max-age=60"
    return response


def error(request):
    """Fails."""
    raise RuntimeError("asked for by /error")


def error_late(request):
    """Fails when a part of the response is out."""

    def pieces():
        yield b"first"
        raise RuntimeError("asked for by /error-late")

    return StreamingHttpResponse(pieces(), content_type="text/plain")


def slow(request):
    """Takes its time."""
    time.sleep(int(request.GET["ms"]) / 1000)
    return text("slow")


urlpatterns = [
    path("", index),
    re_path("^echo", echo),
    path("headers", headers),
    path("cookies", cookies),
    path("bytes", some_bytes),
    path("stream", stream),
    path("status/<int:status>", status_of),
    path("repeat", repeat),
    path("redirect", lambda request: HttpResponseRedirect("/bytes?n=5")),
    path("etag", conditional),
    path("error", error),
    path("error-late", error_late),
    path("slow", slow),
]
app = get_wsgi_application()
