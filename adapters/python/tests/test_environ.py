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


class User(unittest.TestCase):
    """Of whom Maitred says who they are, as RFC 3875 has it."""

    LIES = "remote-user: root\r\nauth-type: x\r\nx-remote-user: root\r\nremote_user: root\r\n"

    def environ(self, builder, who):
        head = f"GET / HTTP/1.1\r\nhost: a.example\r\n{self.LIES}\r\n".encode()
        meta = f"remote=192.0.2.1:999\nlocal=192.0.2.9:80\nscheme=http\n{who}queue_us=5\n".encode()
        return builder.build(meta, head, b"", None, False)

    def test_a_user_is_a_variable(self):
        environ = self.environ(EnvironBuilder(), "user=\xe4nn=b c\nauth_type=Basic\n")
        self.assertEqual(environ["REMOTE_USER"].encode("latin-1").decode(), "\xe4nn=b c", "bytes as characters (PEP 3333)")
        self.assertEqual(environ["AUTH_TYPE"], "Basic")

    def test_no_field_makes_one(self):
        for who in ("", "user=\n", "auth_type=Basic\n", "user=\nauth_type=Basic\n"):
            environ = self.environ(EnvironBuilder(), who)
            self.assertFalse({"REMOTE_USER", "AUTH_TYPE"} & set(environ), who)
            self.assertEqual(environ["HTTP_REMOTE_USER"], "root", "what it is worth, Maitred has decided before")

    def test_a_user_is_of_one_request(self):
        builder = EnvironBuilder()
        users = ["ann", None, "bob", "ann", None]
        seen = [self.environ(builder, f"user={user}\nauth_type=Bearer\n" if user else "") for user in users]
        self.assertEqual([environ.get("REMOTE_USER") for environ in seen], users)


if __name__ == "__main__":
    unittest.main()
