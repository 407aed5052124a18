"""The gateway translates what it should: against a small HTTP/2 server of the package h2. Without the package, skipped."""

import importlib.util
import socket
import threading
import unittest

from client import Connection

if importlib.util.find_spec("h2"):
    import h2.config
    import h2.connection
    import h2.events

    from gateway import Gateway


class Server:
    """What the gateway stands for: one path for each way in which a response can come."""

    name = "small"

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.reset = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def output(self):
        return ""

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        link = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        link.initiate_connection()
        paths, bodies = {}, {}
        with connection:
            connection.sendall(link.data_to_send())
            while data := connection.recv(65536):
                for event in link.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        paths[event.stream_id], bodies[event.stream_id] = dict(event.headers), b""
                    elif isinstance(event, h2.events.DataReceived):
                        bodies[event.stream_id] += event.data
                        link.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        self.answer(link, event.stream_id, paths[event.stream_id], bodies[event.stream_id])
                    elif isinstance(event, h2.events.StreamReset):
                        self.reset.set()
                connection.sendall(link.data_to_send())

    @staticmethod
    def answer(link, number, fields, body):
        path = fields[":path"]
        if path == "/wait":
            return
        length = [("content-length", str(len(body)))] if path == "/echo" else []
        if path == "/continue":
            link.send_headers(number, [(":status", "100")])
        link.send_headers(number, [(":status", "200"), ("x-method", fields[":method"]), *length])
        body = body or b"some bytes"
        # No more than a window; in frames of the size that needs no agreement.
        for at in range(0, len(body), 16384):
            link.send_data(number, body[at : at + 16384], end_stream=path != "/cut" and at + 16384 >= len(body))
        if path == "/cut":
            link.reset_stream(number)


@unittest.skipUnless(importlib.util.find_spec("h2"), "the package h2 is not installed")
class OverHttp2(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.gateway = Gateway(self.server)
        self.addCleanup(self.gateway.__exit__)

    def ask(self, *requests):
        with Connection(self.gateway.address) as connection:
            connection.send(b"".join(requests))
            return [connection.response() for _ in requests]

    def test_bodies_come_and_go(self):
        body = bytes(range(251)) * 200
        length = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        chunks = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        for request in (length + body, chunks + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)):
            (response,) = self.ask(request)
            self.assertEqual((response.status, response.body, response.end), (200, body, "complete"))
            self.assertEqual(response.one("x-method"), "POST")

    def test_requests_in_one_piece(self):
        echo = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        get = b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
        bodies = [response.body for response in self.ask(echo, get, echo)]
        self.assertEqual(bodies, [b"hello", b"some bytes", b"hello"])

    def test_a_reset_cuts(self):
        (response,) = self.ask(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual((response.body, response.end), (b"some bytes", "cut"))

    def test_versions_of_the_client(self):
        (response,) = self.ask(b"GET /stream HTTP/1.0\r\nHost: a\r\n\r\n")
        self.assertEqual((response.body, response.end), (b"some bytes", "closed"))

    def test_a_client_that_goes_away_resets_its_stream(self):
        with Connection(self.gateway.address) as connection:
            connection.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertTrue(self.server.reset.wait(30))


if __name__ == "__main__":
    unittest.main()
