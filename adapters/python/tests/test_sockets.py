"""WebSockets of WSGI applications: the socket in `environ`, in one process and behind the real Maitred with flask-sock."""

import contextlib
import importlib.util
import io
import os
import socket
import struct
import threading
import unittest
from unittest import mock

from maitred import sockets
from maitred.wsgi import Channel
from maitred.wsgi import serve
from tests.behind import Behind, needs_maitred
from tests.frames import small_pair
from tests.served import Channel as Peer
from tests.served import Process
from tests.test_asgi import upgrade
from tests.test_websocket import masked

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
DETACH = 69


class Served:
    """An application in a thread of this process, and Maitred's end of its channel."""

    def __init__(self, application):
        ours, theirs = socket.socketpair()
        worker = Channel(theirs)
        self.log = io.StringIO()

        def run():
            with contextlib.redirect_stderr(self.log):
                serve(worker, application)
            worker.close()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        self.channel = Peer(ours)
        self._clients = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        self.end()
        self.channel.close()

    def end(self):
        """Ends the channel, and waits for the worker."""
        with contextlib.suppress(OSError):
            self.channel.socket.shutdown(socket.SHUT_WR)
        self._thread.join()

    def upgrade(self, early=b"", connection=5):
        """A request that may detach; the client's end of its connection."""
        near, far = small_pair()
        near.settimeout(60)
        self._clients.append(near)
        frame = upgrade(early)
        frame = frame[:8] + struct.pack("<II", connection, connection) + frame[16:]
        socket.send_fds(self.channel.socket, [frame], [far.fileno()])
        far.close()
        return near


def taking(handler, first=(SWITCH,)):
    """An application that takes the connection over, and calls `handler(sock)`."""

    def application(environ, start_response):
        if "HTTP_SEC_WEBSOCKET_KEY" not in environ:
            start_response("200 OK", [])
            return [b"plain"]
        sock = environ["werkzeug.socket"]
        for piece in first:
            sock.send(piece)
        handler(sock)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"nobody reads this"]

    return application


def echo(sock):
    """Says everything again until the end."""
    while data := sock.recv(100):
        sock.sendall(data)


class Sockets(unittest.TestCase):
    def test_a_101_takes_the_connection_over_and_the_process_goes_on(self):
        with Served(taking(echo)) as served:
            client = served.upgrade()
            self.assertEqual(served.channel.frame()[0], DETACH)
            self.assertEqual(served.channel.ask("/")[0].status, 200)
            self.assertEqual(client.recv(1000), SWITCH)
            client.sendall(b"hello")
            self.assertEqual(client.recv(1000), b"hello")
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(client.recv(1000), b"", "what the application returns has nowhere to go")

    def test_the_head_may_come_in_pieces(self):
        with Served(taking(echo, (SWITCH[:3], SWITCH[3:5], SWITCH[5:30], SWITCH[30:]))) as served:
            client = served.upgrade()
            self.assertEqual(served.channel.frame()[0], DETACH)
            seen = b""
            while len(seen) < len(SWITCH):
                seen += client.recv(1000)
            self.assertEqual(seen, SWITCH)

    def test_what_came_early_is_read_first(self):
        found = []

        def handler(sock):
            found.append(sock.recv(2))
            buffer = bytearray(10)
            count = sock.recv_into(buffer)
            found.append(bytes(buffer[:count]))
            found.append(sock.makefile("rb").readline())

        with Served(taking(handler)) as served:
            served.upgrade(b"early").sendall(b"later\n")
            self.assertEqual(served.channel.frame()[0], DETACH)
            served.end()
        self.assertEqual(found, [b"ea", b"rly", b"later\n"])

    def test_it_is_a_blocking_socket_with_its_timeout(self):
        found = []

        def handler(sock):
            found.append(os.get_blocking(sock.fileno()))
            sock.settimeout(0.01)
            try:
                sock.recv(1)
            except TimeoutError:
                found.append("timeout")

        with Served(taking(handler)) as served:
            served.upgrade()
            self.assertEqual(served.channel.frame()[0], DETACH)
            served.end()
        self.assertEqual(found, [True, "timeout"])

    def test_before_the_response_nothing_is_read_or_changed(self):
        found = []

        def application(environ, start_response):
            sock = environ["werkzeug.socket"]
            sock.settimeout(5)
            sock.setblocking(True)
            sock.shutdown(socket.SHUT_RDWR)
            for read in (lambda: sock.recv(1), lambda: sock.recv_into(bytearray(1))):
                with self.assertRaises(OSError):
                    read()
            found.append(os.get_blocking(sock.fileno()))
            sock.close()
            start_response("403 Forbidden", [])
            return [b"refused"]

        with Served(application) as served:
            client = served.upgrade()
            self.assertEqual(served.channel.done().status, 403)
            self.assertTrue(client.recv(1000).endswith(b"refused"))
        self.assertEqual(found, [False])

    def test_another_response_on_the_socket_is_broken_off(self):
        """Only the end of the connection says where it ends."""
        with Served(taking(lambda sock: sock.sendall(b"because"), (b"HTTP/1.1 400 Bad Request\r\n\r\n",))) as served:
            client = served.upgrade()
            done = served.channel.done()
            self.assertEqual((done.status, done.flags), (400, 0))
            self.assertEqual(client.recv(1000), b"HTTP/1.1 400 Bad Request\r\n\r\nbecause")
            self.assertEqual(served.channel.ask("/")[0].status, 200)

    def test_what_is_raised_behind_it_is_the_applications_or_a_way_to_leave(self):
        for error, logged in ((StopIteration(), False), (ConnectionResetError(), False), (ValueError("in the socket"), True)):

            def handler(sock, error=error):
                raise error

            with Served(taking(handler)) as served:
                client = served.upgrade()
                self.assertEqual(served.channel.frame()[0], DETACH)
                self.assertEqual(client.recv(1000), SWITCH)
                self.assertEqual(client.recv(1000), b"")
                served.end()
                self.assertEqual("ValueError: in the socket" in served.log.getvalue(), logged)

    def test_a_client_that_went_away_before_is_nobodys_failure(self):
        gone = threading.Event()

        def application(environ, start_response):
            gone.wait(60)
            return taking(echo)(environ, start_response)

        with Served(application) as served:
            served.upgrade().close()
            gone.set()
            done = served.channel.done()
            self.assertEqual((done.status, done.flags), (0, 0))
            served.end()
            self.assertEqual(served.log.getvalue(), "")

    def test_the_end_of_the_process_is_said(self):
        with Served(taking(echo)) as served:
            client = served.upgrade()
            self.assertEqual(served.channel.frame()[0], DETACH)
            self.assertEqual(client.recv(1000), SWITCH)
            served.channel.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(client.recv(1000), b"\x88\x02\x03\xe9")
            client.sendall(masked(8, struct.pack(">H", 1001)))
            client.shutdown(socket.SHUT_WR)
            # The application's own answer does not come behind that.
            self.assertEqual(client.recv(1000), b"")

    def test_a_client_that_does_not_answer_that_is_cut(self):
        with mock.patch("maitred.sockets.LEAVE_S", 0), mock.patch.object(sockets.Sockets.leave, "__defaults__", (0,)):
            with Served(taking(echo)) as served:
                client = served.upgrade()
                self.assertEqual(served.channel.frame()[0], DETACH)
                self.assertEqual(client.recv(1000), SWITCH)
                served.end()
                self.assertEqual(client.recv(1000), b"\x88\x02\x03\xe9")
                self.assertEqual(client.recv(1000), b"")

    def test_there_are_no_more_than_so_many(self):
        with mock.patch("maitred.sockets.SOCKETS_MAX", 2), Served(taking(echo)) as served:
            clients = [served.upgrade(connection=number) for number in (5, 6)]
            self.assertEqual([served.channel.frame()[0] for _ in clients], [DETACH] * 2)
            served.upgrade(connection=7)
            self.assertEqual(served.channel.done().status, 500)
            clients[0].close()
            # Its thread ends some time after that.
            while True:
                served.upgrade(connection=8)
                kind, _, _, _ = served.channel.frame()
                if kind == DETACH:
                    break

    def test_no_descriptor_is_left(self):
        before = len(os.listdir("/proc/self/fd"))
        with Served(taking(lambda sock: None)) as served:
            for number in range(20):
                client = served.upgrade(connection=number)
                self.assertEqual(served.channel.frame()[0], DETACH)
                self.assertEqual(client.recv(1000), SWITCH)
                self.assertEqual(client.recv(1000), b"")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


FLASK_SOCK = """
import os, threading
from flask import Flask, request
from flask_sock import Sock
app = Flask(__name__)
sock = Sock(app)
@sock.route("/ws")
def ws(ws):
    ws.send(f"{os.getpid()} {request.headers.get('X-Test', '-')}")
    while True:
        ws.send(ws.receive())
@app.route("/")
def page():
    return str(os.getpid())
"""


def has(*names):
    """Whether all of these modules are installed."""
    return all(map(importlib.util.find_spec, names))


@needs_maitred
@unittest.skipUnless(has("flask_sock", "gunicorn", "websockets"), "flask-sock, gunicorn or websockets is not installed")
class FlaskSock(unittest.TestCase):
    def use(self, server):
        from websockets.sync.client import connect

        with contextlib.ExitStack() as stack:
            url = "ws://{}:{}/ws".format(*server.address)
            there = [stack.enter_context(connect(url, additional_headers={"X-Test": str(n)})) for n in range(3)]
            for number, client in enumerate(there):
                pid, seen = client.recv(60).split()
                self.assertEqual(seen, str(number))
            for client in there:
                for text in ("hello", "x" * 200_000, b"bytes" * 1000):
                    client.send(text)
                    self.assertEqual(client.recv(60), text)
            status, _, body = server.get("/")
            self.assertEqual((status, body.decode()), (200, pid), "the same process goes on")
            there[0].close()
            there[1].send("still here")
            self.assertEqual(there[1].recv(60), "still here")
        self.assertEqual(server.get("/")[0], 200)
        # What the framework returns in the end is no failure, and no other response.
        self.assertNotIn("Traceback", server.log())

    def test_in_a_pool(self):
        for kind in ("wsgi", "gunicorn"):
            for transport in ("auto", "direct", "relay"):
                with Behind(FLASK_SOCK, kind, transport) as server:
                    self.use(server)

    def test_under_gunicorns_arbiter(self):
        words = ("-m", "gunicorn", "-k", "maitred.gunicorn.HandoffWorker", "-b", "unix:{dir}/app.sock", "--threads", "2", "app:app")
        with Process(*words, files={"app.py": FLASK_SOCK}) as process:
            path = process.path / "app.sock"
            process.until(path.exists)
            with Behind("", None, pool=f'connect = "unix:{path}"\nworkers = 2') as server:
                self.use(server)


SOCKET_IO = """
from flask import Flask
from flask_socketio import SocketIO
app = Flask(__name__)
io = SocketIO(app, async_mode="threading")
@io.on("shout")
def shout(text):
    io.emit("heard", text)
    return "said " + text
"""


@needs_maitred
@unittest.skipUnless(has("flask_socketio", "socketio", "websocket", "gunicorn"), "flask-socketio or a client of it is not installed")
class FlaskSocketIo(unittest.TestCase):
    """Long polling holds a thread of the process that has the state; then the connection is upgraded."""

    def use(self, server, transports):
        import socketio

        with contextlib.ExitStack() as stack:
            clients, heard = [], [threading.Event() for _ in range(3)]
            for event in heard:
                client = socketio.Client(request_timeout=60)
                client.on("heard", lambda text, event=event: event.set())
                client.connect(server.url, transports=transports, wait_timeout=60)
                stack.callback(client.disconnect)
                clients.append(client)
            self.assertEqual(clients[0].call("shout", "hello", timeout=60), "said hello", server.log())
            for event in heard:
                self.assertTrue(event.wait(60), server.log())
            self.assertEqual({client.transport() for client in clients}, {transports[-1]})
        self.assertNotIn("Traceback", server.log())

    def test_in_threads(self):
        for kind in ("wsgi", "gunicorn"):
            for transports in (["polling"], ["websocket"], ["polling", "websocket"]):
                with Behind(SOCKET_IO, kind, options=["--threads", "10"]) as server:
                    self.use(server, transports)


if __name__ == "__main__":
    unittest.main()
