"""The replay's application: pages of the lengths in the file that PAGES names, a line "BYTES PATH" for each."""

import os

MARKED_BYTES = 4096
NOT_FOUND = b"no such page\n"


def read_pages():
    pages = {}
    with open(os.environ["PAGES"], "rb") as file:
        for line in file:
            length, path = line.rstrip(b"\n").split(b" ", 1)
            # As PEP 3333 has it: bytes as if they were Latin-1.
            pages[path.decode("latin-1")] = int(length)
    return pages


PAGES = read_pages()


def body(path, length):
    """What `marks` in site.rs gives, and zeros."""
    line = b"<!-- " + path.encode("latin-1") + b" -->\n"
    marked = min(length, MARKED_BYTES)
    return (line * (marked // len(line) + 1))[:marked] + bytes(length - marked)


def application(environ, start_response):
    path = environ["SCRIPT_NAME"] + environ["PATH_INFO"]
    length = PAGES.get(path)
    if length is None:
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", str(len(NOT_FOUND)))])
        return [NOT_FOUND]
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(length))])
    return [body(path, length)]
