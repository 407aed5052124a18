"""Maitred's side of the channel, and a client's side of the connection, for tests. Standard library only.

Written from adapters/PROTOCOL.md alone: it shares no code with any adapter.
"""

import array
import os
import resource
import select
import socket
import struct
import subprocess

REQUEST, FORGET, CANCEL, PING, SHUTDOWN, WELCOME = 1, 2, 3, 4, 5, 6
HELLO, DONE, PONG = 65, 66, 68
KEEP, HTTP10, HEAD = 1, 2, 4
CLEAN, CLOSE = 1, 2
OPTIONAL = 128
HEADER = struct.Struct("<IBBHII")
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
# Nothing here takes long; this only bounds how long a broken adapter can hold the kit up.
DEADLINE_S = 10
# Adapters start with this soft limit, which they are to raise; low, so that a few connections show whether they do.
SOFT_LIMIT_OF_FILES = 128


class Failure(AssertionError):
    """The adapter does not do what the protocol says."""


def expect(condition, text):
    """Fails with `text` unless `condition` holds."""
    if not condition:
        raise Failure(text)


def equal(found, wanted, what):
    """Fails unless both are equal."""
    if found != wanted:
        raise Failure(f"{what}: found {found!r}, wanted {wanted!r}")


def frame(kind, payload=b"", flags=0, descriptors=0, connection=0, request=0):
    """Bytes of one frame."""
    return HEADER.pack(len(payload), kind, flags, descriptors, connection, request) + payload


def request_frame(connection, request, target="/echo", **options):
    """Bytes of a REQUEST. Options: method, fields (list of pairs), body, flags, descriptors, mount, meta."""
    method, body = options.get("method", "GET"), options.get("body", b"")
    lines = [f"{method} {target} HTTP/1.1", "host: example.com"]
    lines += [f"{name}: {value}" for name, value in options.get("fields", ())]
    if body or method in ("POST", "PUT"):
        lines.append(f"content-length: {len(body)}")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    meta = options.get("meta")
    if meta is None:
        meta = "remote=192.0.2.7:4711\nlocal=[::1]:8080\nscheme=http\n"
        meta += f"mount={options.get('mount', '')}\nodd=1\nqueue_us={request}\n"
    meta = meta.encode()
    payload = struct.pack("<III", len(meta), len(head), len(body)) + meta + head + body
    flags = options.get("flags", KEEP) | (HEAD if method == "HEAD" else 0)
    return frame(REQUEST, payload, flags, options.get("descriptors", 0), connection, request)


class Done:
    """A DONE that was received."""

    def __init__(self, flags, connection, request, payload):
        expect(len(payload) == 16, f"DONE has a payload of {len(payload)} bytes")
        self.flags, self.connection, self.request = flags, connection, request
        self.status, reserved, self.service_us, self.body_bytes = struct.unpack("<HHIQ", payload)
        equal(reserved, 0, "reserved field of DONE")
        expect(flags in (0, CLEAN, CLOSE), f"DONE has flags {flags:#x}")


class Answer:
    """A response as a client reads it."""

    def __init__(self, status, fields, body, how):
        self.status, self.fields, self.body, self.how = status, fields, body, how

    def all(self, name):
        """Every value of a field."""
        return [value for key, value in self.fields if key == name]

    def one(self, name):
        """The only value of a field, or None."""
        values = self.all(name)
        expect(len(values) <= 1, f"{name} stands {len(values)} times")
        return values[0] if values else None


class Client:
    """Both ends of a client's connection: `near` is the client's, `far` the one that the worker gets a copy of."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.near = socket.create_connection(listener.getsockname())
            self.far, _ = listener.accept()
        self.near.settimeout(DEADLINE_S)
        self.far.setblocking(False)
        self.far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def close(self):
        """Closes both."""
        self.near.close()
        self.far.close()

    def more(self):
        """Receives something; False at the end."""
        data = self.near.recv(65536)
        self._data += data
        return bool(data)

    def _until(self, mark):
        while mark not in self._data:
            expect(self.more(), f"the connection ended before {mark!r}; there was {self._data[:200]!r}")
        found, _, self._data = self._data.partition(mark)
        return found

    def _exactly(self, count):
        while len(self._data) < count:
            expect(self.more(), f"the connection ended {count - len(self._data)} bytes early")
        found, self._data = self._data[:count], self._data[count:]
        return found

    def answer(self, head_only=False):
        """Reads one response, strictly."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = (lines[0] + " ").split(" ", 2)
        equal(version, "HTTP/1.1", "version of the response")
        fields = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            expect(colon and name and not name[-1].isspace(), f"bad field {line!r}")
            fields.append((name.lower(), value.strip()))
        answer = Answer(int(status), fields, b"", "none")
        length, coding = answer.one("content-length"), answer.one("transfer-encoding")
        expect(length is None or coding is None, "both Content-Length and Transfer-Encoding")
        expect(answer.one("date"), "no Date")
        expect(answer.one("server"), "no Server")
        if head_only or answer.status in (204, 304):
            return answer
        if coding is not None:
            equal(coding, "chunked", "Transfer-Encoding")
            answer.how, answer.body = "chunked", self._chunked()
        elif length is not None:
            answer.how, answer.body = "length", self._exactly(int(length))
        else:
            answer.how = "close"
        return answer

    def _chunked(self):
        body = b""
        while True:
            size = int(self._until(b"\r\n"), 16)
            body += self._exactly(size)
            equal(self._exactly(2), b"\r\n", "end of a chunk")
            if size == 0:
                return body

    def rest(self):
        """What comes until the end of the connection."""
        while self.more():
            pass
        data, self._data = self._data, b""
        return data

    def is_quiet(self):
        """Nothing received that was not read, and no end."""
        return not self._data and not select.select([self.near], [], [], 0)[0]


def _lower_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT_OF_FILES, hard))


class Worker:
    """An adapter that was started, and the server's end of its channel."""

    def __init__(self, command):
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(DEADLINE_S)
        environment = {**os.environ, "MAITRED_CHANNEL": str(theirs.fileno())}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=environment,
            preexec_fn=_lower_limit,
            start_new_session=True,
        )
        theirs.close()
        self._data = b""
        self._clients = []
        self._request = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def welcome(self):
        """Reads HELLO, answers WELCOME; returns (lowest version, highest version, capacity, name)."""
        kind, flags, connection, request, payload = self.read_frame()
        equal(kind, HELLO, "kind of the first frame")
        equal((flags, connection, request), (0, 0, 0), "flags and numbers of HELLO")
        expect(8 <= len(payload) <= 72, f"HELLO has a payload of {len(payload)} bytes")
        self.send(frame(WELCOME, struct.pack("<HHI", 1, 0, PAYLOAD_BYTES_MAX)))
        return (*struct.unpack_from("<HHI", payload), payload[8:].decode())

    def client(self):
        """A new client connection."""
        client = Client()
        self._clients.append(client)
        return client

    def send(self, data, descriptors=()):
        """Sends bytes, the descriptors with the first of them."""
        if descriptors:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            data = data[self.sock.sendmsg([data], rights) :]
        self.sock.sendall(data)

    def read_frame(self):
        """The next frame from the adapter: kind, flags, connection, request, payload."""
        while True:
            if len(self._data) >= HEADER.size:
                size, kind, flags, descriptors, connection, request = HEADER.unpack_from(self._data)
                expect(size <= 4096, f"a frame with a payload of {size} bytes")
                equal(descriptors, 0, "descriptors of a frame")
                if len(self._data) >= HEADER.size + size:
                    payload = self._data[HEADER.size : HEADER.size + size]
                    self._data = self._data[HEADER.size + size :]
                    return kind, flags, connection, request, payload
            data = self.sock.recv(65536)
            if not data:
                raise Failure(f"the adapter closed the channel; it said: {self.errors() if self._exited() else ''}")
            self._data += data

    def done(self):
        """The next frame, which must be a DONE."""
        kind, flags, connection, request, payload = self.read_frame()
        equal(kind, DONE, "kind of a frame")
        return Done(flags, connection, request, payload)

    def at_end(self):
        """Whether the adapter has closed the channel, without another frame."""
        return not self._data and self.sock.recv(65536) == b""

    def ask(self, target, client=None, **options):
        """One request, one response, one DONE, on a connection of its own. Returns (answer, done, client)."""
        self._request += 1
        number = self._request
        client = client or self.client()
        data = request_frame(number + 1000, number, target, descriptors=1, **options)
        self.send(data, [client.far.fileno()])
        answer = client.answer(options.get("method") == "HEAD")
        if answer.how == "close":
            done = self.done()
            client.far.shutdown(socket.SHUT_RDWR)
            answer.body = client.rest()
        else:
            done = self.done()
        equal((done.connection, done.request), (number + 1000, number), "numbers in DONE")
        if done.status != 0:
            equal(done.status, answer.status, "status in DONE")
        return answer, done, client

    def signal(self, number):
        """Sends a signal to the adapter."""
        self.process.send_signal(number)

    def exit_status(self):
        """Waits for the adapter to exit."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise Failure("the adapter does not exit") from error

    def errors(self):
        """What the adapter wrote to standard error; only after it exited."""
        return self.process.stderr.read().decode("utf-8", "replace")

    def _exited(self):
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            return False
        return True
