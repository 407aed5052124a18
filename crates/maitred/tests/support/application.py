"""The application of the black-box tests: what it does is said by the last segment of the path."""

import json
import os
import signal
import socket
import time


def application(environ, start_response):
    name = environ["PATH_INFO"].rsplit("/", 1)[-1]
    return PAGES.get(name, missing)(environ, start_response)


def reply(start_response, body, status="200 OK", content_type="text/plain"):
    start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body)))])
    return [body]


def missing(environ, start_response):
    return reply(start_response, b"no such page\n", "404 Not Found")


def hello(environ, start_response):
    return reply(start_response, b"hello " + environ["QUERY_STRING"].encode() + b"\n")


def echo(environ, start_response):
    return reply(start_response, environ["wsgi.input"].read(), content_type="application/octet-stream")


def length(environ, start_response):
    """Says how long the body was: for those that are too long to be sent back."""
    return reply(start_response, str(len(environ["wsgi.input"].read())).encode())


def show(environ, start_response):
    """The environment of the request, as JSON."""
    shown = {key: value for key, value in environ.items() if isinstance(value, str)}
    shown["body"] = environ["wsgi.input"].read().decode("latin-1")
    return reply(start_response, json.dumps(shown).encode(), content_type="application/json")


def stream(environ, start_response):
    """A body of unknown length, in pieces."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (b"piece %d\n" % number for number in range(20))


def large(environ, start_response):
    """As many bytes as the query says."""
    count = int(environ["QUERY_STRING"])
    block = bytes(range(256)) * 256
    return reply(start_response, (block * (count // len(block) + 1))[:count])


def nothing(environ, start_response):
    start_response("204 No Content", [])
    return []


def fail(environ, start_response):
    raise ValueError("as asked")


def fail_late(environ, start_response):
    """Breaks after a part of the body has been sent."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1000000")])
    yield b"x" * 100_000
    raise ValueError("as asked")


def die(environ, start_response):
    os.kill(os.getpid(), signal.SIGKILL)


def die_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1000000")])
    yield b"x" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)


def stand_at_the_gate():
    """Reports there, and goes on when it is released."""
    host, port = os.environ["GATE"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as gate:
        gate.sendall(b"%d\n" % os.getpid())
        gate.recv(1)


def wait(environ, start_response):
    stand_at_the_gate()
    return reply(start_response, b"waited\n")


def trickle(environ, start_response):
    """A byte now and then, without an end."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1000000")])
    while True:
        yield b"x"
        time.sleep(0.02)


def held(environ, start_response):
    """Twenty megabytes, no faster than they can be passed on; the last byte comes when the gate lets it."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "20000001")])
    # What a server without a CPU leaves in a relay for 300 ms fits there: beyond that, the rest would be kept here.
    for _ in range(2000):
        yield b"x" * 10_000
        time.sleep(0.015)
    stand_at_the_gate()
    yield b"y"


def flood(environ, start_response):
    """As fast as it can, without an end."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1000000000000")])
    while True:
        yield b"x" * 60_000


def pid(environ, start_response):
    return reply(start_response, str(os.getpid()).encode())


PAGES = {
    "hello": hello,
    "echo": echo,
    "length": length,
    "show": show,
    "stream": stream,
    "large": large,
    "nothing": nothing,
    "fail": fail,
    "fail-late": fail_late,
    "die": die,
    "die-late": die_late,
    "wait": wait,
    "trickle": trickle,
    "held": held,
    "flood": flood,
    "pid": pid,
}
