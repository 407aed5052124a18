"""A WSGI application that takes a second to load, for the scenario kill-pool."""

import time

BODY = b"x" * 1024
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]

time.sleep(1)


def application(environ, start_response):
    start_response("200 OK", HEADERS)
    return [BODY]
