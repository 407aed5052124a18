"""An application that listens by itself; a real one has gunicorn or its like here. Only Python's standard library."""

from wsgiref.simple_server import make_server


def application(environ, start_response):
    """What came through the proxy."""
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    host, client = environ["HTTP_HOST"], environ["HTTP_X_FORWARDED_FOR"]
    return [f"{environ['PATH_INFO']} of {host} for {client}\n".encode()]


if __name__ == "__main__":
    make_server("", 8000, application).serve_forever()
