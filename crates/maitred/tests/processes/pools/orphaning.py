"""Leaves processes behind, as applications that start helpers in the background do: `/fork` so many, `/release` has them end."""

import os

HELD = []


def leave_behind(count):
    """Each is the child of a child that has ended. It ends when the pipe does."""
    reader, writer = os.pipe()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os.close(writer)
                os.read(reader, 1)
            os._exit(0)
        os.waitpid(child, 0)
    os.close(reader)
    HELD.append(writer)


def application(environ, start_response):
    path, body = environ["PATH_INFO"], b"done\n"
    if path.endswith("/fork"):
        leave_behind(int(environ["QUERY_STRING"]))
    elif path.endswith("/release"):
        while HELD:
            os.close(HELD.pop())
    elif path.endswith("/exit"):
        os._exit(int(environ["QUERY_STRING"]))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
