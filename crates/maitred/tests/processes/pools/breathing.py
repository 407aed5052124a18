"""An application that starts slowly, grows, or tells of the limits that it lives in: what it does is said by its environment, and
by the last segment of the path."""

import json
import os
import resource
import socket
import threading
import time

held = []


def resident(megabytes):
    """Takes memory, and keeps it."""
    held.append(bytearray(os.urandom(4096)) * (256 * megabytes))


def hello(query):
    return "hello %s\n" % query


def pid(query):
    return str(os.getpid())


def wait(query):
    """Reports at the gate, and goes on when it is released."""
    host, port = os.environ["GATE"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as gate:
        gate.sendall(b"%d\n" % os.getpid())
        gate.recv(1)
    return "waited\n"


def grow(query):
    resident(int(query))
    return str(os.getpid())


def say(query):
    """Writes a line to standard output, and one to standard error."""
    print("out " + query, flush=True)
    os.write(2, b"err " + query.encode() + b"\n")
    return "said\n"


def around(query):
    return json.dumps(
        {
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "uid": os.getuid(),
            "gid": os.getgid(),
            "groups": os.getgroups(),
            "cwd": os.getcwd(),
            "env": dict(os.environ),
        }
    )


def write_endlessly():
    line = b"x" * 99 + b"\n"
    while True:
        os.write(1, line * 100)
        os.write(2, line)


PAGES = {page.__name__: page for page in (hello, pid, wait, grow, say, around)}


def application(environ, start_response):
    page = PAGES[environ["PATH_INFO"].rsplit("/", 1)[-1]]
    body = page(environ["QUERY_STRING"]).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


# Starting takes its time: reading a large program, say.
time.sleep(float(os.environ.get("STARTS_IN", "0")))
resident(int(os.environ.get("GROWS", "0")))
if os.environ.get("WRITES"):
    threading.Thread(target=write_endlessly, daemon=True).start()
