"""Fields behind the body of a request: `trailers_in` of modules. That they arrive is in the conformance kit."""

import tempfile
import unittest

import server
from server import kit

CONFIGURATION = """
StartServers 1
MinSpareServers 1
MaxSpareServers 1
MaxRequestWorkers 2
<LocationMatch "^/(bytes|request-trailers)(/|$)">
    SetHandler reference
</LocationMatch>
LogFormat "%U %{{x-sum}}^ti" trailing
<VirtualHost *:*>
    ServerName test.example
    CustomLog "{root}/trailing.log" trailing
</VirtualHost>
<VirtualHost *:*>
    ServerName merging.example
    MergeTrailers on
</VirtualHost>
"""
FIELDS = [("x-sum", "17"), ("x-sum", "18"), ("x-head", "late")]
HEAD = [("x-head", "early"), ("x-other", "1")]


class RequestTrailers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        cls.apache = server.Apache("prefork", CONFIGURATION)
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)

    def setUp(self):
        self.channel = kit.Connected(self.apache.path, str(self.apache.log))
        self.addCleanup(self.channel.__exit__)
        self.channel.welcome()

    def ask(self, target, **options):
        answer, done, _ = self.channel.ask(target, method="POST", fields=HEAD, **options)
        self.assertEqual((answer.status, done.flags), (200, kit.CLEAN))
        return answer.body.decode()

    def test_they_are_merged_into_the_fields_where_apache_is_told_so(self):
        early, late = "x-head: early\nx-other: 1\n", "x-head: early\nx-head: late\nx-other: 1\nx-sum: 17, 18\n"
        for host, wanted in (("test.example", early), ("merging.example", late), ("test.example", early)):
            for size in (0, 3, 300_000):
                body = b"z" * size
                found = self.ask("/request-trailers/1", host=host, trailers=FIELDS, body=body)
                # A body of no bytes is not read, so that nothing is behind it.
                self.assertEqual(found, f"{size}\n{wanted if size else early}", host)
                self.assertEqual(self.ask("/request-trailers/1", host=host, body=body), f"{size}\n{early}")
                self.assertEqual(self.ask("/request-trailers", host=host, body=body), f"{size}\n")
        with tempfile.TemporaryFile() as spool:
            spool.write(b"z" * 300_000)
            spool.flush()
            options = {"host": "merging.example", "body_file": 300_000, "descriptors": [spool.fileno()]}
            self.assertEqual(self.ask("/request-trailers/1", trailers=FIELDS, **options), f"300000\n{late}")

    def test_the_log_has_them_also_of_a_body_that_was_not_read(self):
        self.ask("/bytes/5", trailers=FIELDS, body=b"abc", host="test.example")
        self.ask("/bytes/6", body=b"abc", host="test.example")
        lines = (self.apache.root / "trailing.log").read_text().splitlines()
        self.assertEqual([line for line in lines if line.startswith("/bytes")], ["/bytes/5 17, 18", "/bytes/6 -"])


if __name__ == "__main__":
    unittest.main()
