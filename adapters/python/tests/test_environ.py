"""Environments: what is kept from request to request, and what is not."""

import unittest

from maitred.environ import EnvironBuilder

_META = b"remote=192.0.2.1:999\nlocal=192.0.2.9:80\nscheme=http\nmount=\nqueue_us=5\n"


def _head(request_id, start, more=""):
    fields = f"host: a.example\r\naccept: */*\r\nx-request-id: {request_id}\r\nx-request-start: {start}\r\n{more}"
    return f"GET / HTTP/1.1\r\n{fields}\r\n".encode()


class Kept(unittest.TestCase):
    def test_the_id_of_a_request_is_its_own(self):
        builder = EnvironBuilder()
        first = builder.build(_META, _head("one", "t=1.000"), b"", None, False)
        second = builder.build(_META, _head("two", "t=2.000"), b"", None, False)
        seen = [(e["HTTP_X_REQUEST_ID"], e["HTTP_X_REQUEST_START"], e["HTTP_ACCEPT"]) for e in (first, second)]
        self.assertEqual(seen, [("one", "t=1.000", "*/*"), ("two", "t=2.000", "*/*")])
        self.assertEqual(len(builder._blocks), 1, "what comes before the id is kept once")

    def test_what_follows_the_id_is_seen(self):
        environ = EnvironBuilder().build(_META, _head("one", "t=1.000", "content-length: 4\r\n"), b"body", None, False)
        self.assertEqual((environ["CONTENT_LENGTH"], environ["wsgi.input"].read()), ("4", b"body"))


if __name__ == "__main__":
    unittest.main()
