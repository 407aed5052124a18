"""A WSGI application that answers 1 KiB, for the scenario dynamic-1k."""

BODY = b"x" * 1024
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]


def application(environ, start_response):
    start_response("200 OK", HEADERS)
    return [BODY]
