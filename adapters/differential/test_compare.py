"""The runner finds what differs: two small servers, and the comparison by itself. `python3 -m unittest` here."""

import socket
import threading
import unittest

from client import Connection, Failure, observed
from compare import Allowance, WrongAllowance, differences, unexplained


def answer(data, method="GET"):
    """What a client sees of a server that sends `data` and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with Connection(listener.getsockname()) as connection:
                return connection.response(method)
        finally:
            thread.join()


def head(*lines):
    return "\r\n".join([*lines, "", ""]).encode()


class Client(unittest.TestCase):
    def test_a_body_of_known_length(self):
        found = answer(head("HTTP/1.1 200 OK", "Content-Length: 3") + b"abc")
        self.assertEqual((found.body, found.end), (b"abc", "complete"))

    def test_a_body_that_is_cut(self):
        found = answer(head("HTTP/1.1 200 OK", "Content-Length: 4") + b"abc")
        self.assertEqual((found.body, found.end), (b"abc", "cut"))

    def test_chunks(self):
        start = head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")
        found = answer(start + b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: 1\r\n\r\n")
        self.assertEqual((found.body, found.end), (b"abcd", "complete"))
        for data in (b"3\r\nabc\r\n", b"3\r\nabc\r\n0\r\n", b"3\r\nab", b"3\r\nabcx", b""):
            self.assertEqual(answer(start + data).end, "cut", data)
        with self.assertRaises(Failure):
            answer(start + b"x\r\n")

    def test_a_body_up_to_the_end_of_the_connection(self):
        found = answer(head("HTTP/1.0 200 OK") + b"abc")
        self.assertEqual((found.body, found.end), (b"abc", "closed"))

    def test_responses_without_a_body(self):
        self.assertEqual(answer(head("HTTP/1.1 200 OK", "Content-Length: 9"), "HEAD").end, "complete")
        self.assertEqual(answer(head("HTTP/1.1 304 Not Modified", "Content-Length: 9")).end, "complete")

    def test_interim_responses_are_passed_over(self):
        self.assertEqual(answer(head("HTTP/1.1 100 Continue") + head("HTTP/1.1 204 No Content")).status, 204)

    def test_no_response_is_a_failure(self):
        for data in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 two OK\r\n\r\n", head("HTTP/1.1 200 OK", "no colon")):
            with self.assertRaises(Failure, msg=data):
                answer(data)


class Comparison(unittest.TestCase):
    def observed(self, *lines, body=b""):
        return observed(answer(head("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *lines) + body))

    def test_the_same_is_no_difference(self):
        found = self.observed("Date: yesterday", "X-A: 1", "X-B: 2", body=b"a")
        other = self.observed("x-b: 2", "X-A: 1", "Date: today", body=b"a")
        self.assertEqual(differences([found], [other]), [])

    def test_every_part_is_compared(self):
        found = self.observed("X-A: 1", "X-A: 2", body=b"a" * 2000)
        for other, field in (
            (self.observed("X-A: 2", "X-A: 1", body=b"a" * 2000), "x-a"),
            (self.observed("X-A: 1", body=b"a" * 2000), "x-a"),
            (self.observed(body=b"a" * 2000), "x-a"),
            (self.observed("X-A: 1", "X-A: 2", "Date: now", body=b"a" * 2000), "date"),
            (self.observed("X-A: 1", "X-A: 2", body=b"a" * 1999 + b"b"), "body"),
            ({**found, "status": "201"}, "status"),
            ({**found, "reason": "Fine"}, "reason"),
            ({**found, "end": "cut"}, "end"),
            ({**found, "version": "HTTP/1.0"}, "version"),
        ):
            self.assertEqual([name for name, _, _ in differences([found], [other])], [field])

    def test_a_response_that_is_missing_is_a_difference(self):
        self.assertEqual(differences([{}, {}], [{}]), [("responses", "2", "1")])


class Allowances(unittest.TestCase):
    def test_it_covers_what_it_names_and_nothing_else(self):
        allowance = Allowance(
            {"field": "connection", "cases": ["method *"], "alone": "keep-alive", "behind": "-", "why": "it is the rule"}
        )
        fits = ("connection", "keep-alive", "-")
        self.assertEqual(unexplained("method GET", [fits], [allowance]), [])
        self.assertEqual(allowance.used, 1)
        for name, difference in (
            ("cookies", fits),
            ("method GET", ("server", "keep-alive", "-")),
            ("method GET", ("connection", "close", "-")),
            ("method GET", ("connection", "keep-alive", "close")),
        ):
            self.assertEqual(unexplained(name, [difference], [allowance]), [difference])
        self.assertEqual(allowance.used, 1)

    def test_one_without_a_reason_is_refused(self):
        for table in ({"field": "server"}, {"why": "so"}, {"field": "a", "why": ""}, {"field": "a", "why": "b", "case": "c"}):
            with self.assertRaises(WrongAllowance):
                Allowance(table)


if __name__ == "__main__":
    unittest.main()
