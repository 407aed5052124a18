"""An application in a container: who it is, and what of its surroundings it may write. Only Python's standard library."""

import json
import os
import socket


def may_write(directory):
    """Whether a file can be made there."""
    path = os.path.join(directory, f"written-by-{os.getpid()}")
    try:
        with open(path, "x"):
            pass
    except OSError:
        return False
    os.unlink(path)
    return True


def application(environ, start_response):
    """Any path gives the same answer."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    answer = {
        "host": socket.gethostname(),
        "uid": os.getuid(),
        "parent": os.getppid(),
        "read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "writes": [directory for directory in ("/", "/srv/app", "/tmp", "/var/cache/maitred") if may_write(directory)],
        "received": len(body),
        "scheme": environ["wsgi.url_scheme"],
        "client": environ.get("HTTP_X_FORWARDED_FOR", ""),
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode() + b"\n"]
