"""WSGI without a framework: /bytes/N is N bytes."""

CONTENT = b"x" * (1 << 20)


def application(environ, start_response):
    count = int(environ["PATH_INFO"].rpartition("/")[2])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(count))])
    return [CONTENT[:count]]
