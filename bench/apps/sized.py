"""A WSGI application that answers as many bytes as the path says, for the scenario ktls."""

CONTENT = b"x" * (1 << 20)


def application(environ, start_response):
    count = int(environ["PATH_INFO"].rsplit("/", 1)[-1])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(count))])
    return [CONTENT[:count]]
