"""103 Early Hints of WSGI applications."""

import unittest

from tests.test_wsgi import HTML, Exchange


class EarlyHints(unittest.TestCase):
    """`wsgi.early_hints`, which gunicorn has as well."""

    HINTED = b"early_hints=1\nqueue_us=1\n"

    def hinting(self, *hints, late=False):
        def application(environ, start_response):
            write = start_response("200 OK", HTML)
            if late:
                write(b"begun")
            for hint in hints:
                environ["wsgi.early_hints"](hint)
            return [b"body"]

        return application

    def test_they_come_before_the_response(self):
        hints = [("Link", "</a>"), (b"link", b"</b>")], [("X-More", "1")]
        found = Exchange(self.hinting(*hints), "/", "/", meta=self.HINTED)
        first = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nlink: </b>\r\n\r\n"
        second = b"HTTP/1.1 103 Early Hints\r\nX-More: 1\r\n\r\n"
        self.assertTrue(found.raw.startswith(first + second + b"HTTP/1.1 200 OK\r\n"), found.raw)
        self.assertEqual(found.raw.count(b"103 Early Hints"), 4)
        self.assertEqual([(done.status, done.body_bytes) for done in found.dones], [(200, 4)] * 2)

    def test_without_the_line_there_is_no_such_function(self):
        for meta in (None, b"early_hints=0\n"):
            found = Exchange(self.hinting([("Link", "</a>")]), meta=meta)
            self.assertEqual(found.done.status, 500)
            self.assertIn("KeyError: 'wsgi.early_hints'", found.log.getvalue())

    def test_what_is_the_connections_is_left_out(self):
        hint = [("Connection", "close"), ("Content-Length", "5"), ("Transfer-Encoding", "chunked"), ("Link", "</a>")]
        found = Exchange(self.hinting(hint), meta=self.HINTED)
        self.assertEqual(found.lines, ["HTTP/1.1 103 Early Hints", "Link: </a>"])

    def test_too_late_and_too_much_are_dropped(self):
        found = Exchange(self.hinting([("Link", "</a>")], late=True), meta=self.HINTED)
        self.assertNotIn(b"103", found.raw)
        found = Exchange(self.hinting([("Link", "x" * 17_000)]), meta=self.HINTED)
        self.assertEqual((found.lines[0], found.body), ("HTTP/1.1 200 OK", b"body"))
        found = Exchange(self.hinting(*[[("Link", "</a>")]] * 20), meta=self.HINTED)
        self.assertEqual(found.raw.count(b" 103 "), 16)

    def test_what_may_not_be_sent_is_an_error(self):
        for hint in ([("Link", "a\r\nX: y")], [("Li nk", "a")], [("Link", 1)]):
            self.assertEqual(Exchange(self.hinting(hint), meta=self.HINTED).done.status, 500)


if __name__ == "__main__":
    unittest.main()
