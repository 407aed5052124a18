"""Maitred's side of the channel, and a client's side of the connection, for tests. Standard library only.

Written from adapters/PROTOCOL.md alone: it shares no code with any adapter.
"""

import array
import fcntl
import os
import resource
import select
import socket
import stat
import struct
import subprocess
import termios
import time

REQUEST, FORGET, CANCEL, PING, SHUTDOWN, WELCOME, TRAILERS = 1, 2, 3, 4, 5, 6, 7
HELLO, DONE, TAIL, PONG, DETACH, LIMITS, STREAMS = 65, 66, 67, 68, 69, 70, 71
KEEP, HTTP10, HEAD, BODY_FD, MAY_DETACH, BODY_STREAM = 1, 2, 4, 8, 16, 32
SOCKETS_ONLY, RECOVERS = 1, 2
CLEAN, CLOSE = 1, 2
FILE = 1
OPTIONAL = 128
HEADER = struct.Struct("<IBBHII")
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
TAIL_BYTES_MAX = 64 * 1024
TAIL_TOTAL_BYTES_MAX = 1024 * 1024
TAILS_MAX = 1024
# Nothing here takes long; this only bounds how long a broken adapter can hold the kit up.
DEADLINE_S = 60
# Adapters start with this soft limit, which they are to raise; low, so that a few connections show whether they do.
SOFT_LIMIT_OF_FILES = 128


class Failure(AssertionError):
    """The adapter does not do what the protocol says."""


class Skipped(Exception):
    """The adapter's reference application does not offer what a case asks for."""


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


def trailers_frame(connection, request, fields):
    """Bytes of TRAILERS, of pairs."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields).encode("latin-1")
    return frame(TRAILERS, lines, OPTIONAL, 0, connection, request)


def request_frame(connection, request, target="/echo", **options):
    """Bytes of a REQUEST. Options: method, host, fields (list of pairs), body, flags, descriptors, mount, meta, body_file (the size
    of a body that comes as a descriptor), body_stream (the size of one that follows on the response descriptor; None for one in
    chunks), early (bytes behind a request that may detach), says (further lines of the meta part, as a dictionary), trailers
    (list of pairs, for TRAILERS before it)."""
    method, body = options.get("method", "GET"), options.get("body", b"")
    lines = [f"{method} {target} HTTP/1.1", f"host: {options.get('host', 'example.com')}"]
    lines += [f"{name}: {value}" for name, value in options.get("fields", ())]
    flags, descriptors = options.get("flags", KEEP), options.get("descriptors", 0)
    if "body_file" in options:
        flags, descriptors = flags | BODY_FD, descriptors + 1
        lines.append(f"content-length: {options['body_file']}")
    elif "body_stream" in options:
        flags |= BODY_STREAM
        if options["body_stream"] is not None:
            lines.append(f"content-length: {options['body_stream']}")
    elif body or method in ("POST", "PUT"):
        lines.append(f"content-length: {len(body)}")
    body = options.get("early", body)
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    meta = options.get("meta")
    if meta is None:
        meta = "remote=192.0.2.7:4711\nlocal=[::1]:8080\nscheme=http\n"
        meta += f"mount={options.get('mount', '')}\nodd=1\n"
        meta += "".join(f"{key}={value}\n" for key, value in options.get("says", {}).items()) + f"queue_us={request}\n"
    meta = meta.encode()
    payload = struct.pack("<III", len(meta), len(head), len(body)) + meta + head + body
    before = trailers_frame(connection, request, options["trailers"]) if "trailers" in options else b""
    return before + frame(REQUEST, payload, flags | (HEAD if method == "HEAD" else 0), descriptors, connection, request)


class Done:
    """A DONE that was received, and the TAILs of its request as one piece."""

    def __init__(self, flags, connection, request, payload, tails=()):
        self.tails = [flags for flags, _ in tails]
        self.tail = b"".join(data for _, data in tails)
        expect(len(payload) == 16, f"DONE has a payload of {len(payload)} bytes")
        self.flags, self.connection, self.request = flags, connection, request
        self.status, reserved, self.service_us, self.body_bytes = struct.unpack("<HHIQ", payload)
        equal(reserved, 0, "reserved field of DONE")
        expect(flags in (0, CLEAN, CLOSE), f"DONE has flags {flags:#x}")


class Answer:
    """A response as a client reads it."""

    def __init__(self, status, fields, body, how):
        self.status, self.fields, self.body, self.how = status, fields, body, how
        self.trailers = []

    def all(self, name):
        """Every value of a field."""
        return [value for key, value in self.fields if key == name]

    def one(self, name):
        """The only value of a field, or None."""
        values = self.all(name)
        expect(len(values) <= 1, f"{name} stands {len(values)} times")
        return values[0] if values else None


def _field(line):
    name, colon, value = line.partition(":")
    expect(colon and name and not name[-1].isspace(), f"bad field {line!r}")
    return name.lower(), value.strip()


def _queued(sock):
    """Bytes that wait in a socket to be sent."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


class Client:
    """Both ends of a client's connection: `near` is the client's, `far` the one that the worker gets a copy of. Of a relay `near` is
    Maitred's."""

    def __init__(self, relay=False):
        if relay:
            self.near, self.far = socket.socketpair()
        else:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self.near = socket.create_connection(listener.getsockname())
                self.far, _ = listener.accept()
            self.far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.near.settimeout(DEADLINE_S)
        self.far.setblocking(False)
        self._data = b""
        self.delivered = None
        self.worker = None

    def close(self):
        """Closes both."""
        self.near.close()
        self.far.close()

    def deliver(self, data):
        """Sends what TAILs said, as Maitred does, and reads meanwhile what the client gets."""
        if data is self.delivered:
            return
        self.delivered = data
        rest = memoryview(data)
        while rest:
            readable, writable, _ = select.select([self.near], [self.far], [], DEADLINE_S)
            expect(readable or writable, "the connection does not move")
            if writable:
                rest = rest[self.far.send(rest) :]
            if readable:
                expect(self.more(), "the connection ended before its tail")

    def takes(self, data):
        """Whether its socket has room for that, for which it has nothing waiting."""
        return self.far.fileno() >= 0 and len(data) <= 65536 + 4096 and not _queued(self.far)

    def more(self):
        """Receives something; False at the end. Meanwhile the channel is read, where the response may come as a TAIL."""
        while self.worker and self.worker.is_open:
            readable, _, _ = select.select([self.near, self.worker.sock], [], [], DEADLINE_S)
            if self.near in readable or not readable or not self.worker.read_ahead():
                break
        data = self.near.recv(65536)
        self._data += data
        return bool(data)

    def _until(self, mark):
        while mark not in self._data:
            expect(self.more(), f"the connection ended before {mark!r}; there was {self._data[:200]!r}")
        found, _, self._data = self._data.partition(mark)
        return found

    def read_exactly(self, count):
        """So many bytes."""
        while len(self._data) < count:
            expect(self.more(), f"the connection ended {count - len(self._data)} bytes early")
        found, self._data = self._data[:count], self._data[count:]
        return found

    def _head(self):
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = (lines[0] + " ").split(" ", 2)
        equal(version, "HTTP/1.1", "version of the response")
        return Answer(int(status), [_field(line) for line in lines[1:]], b"", "none")

    def informational(self):
        """Reads one informational response."""
        answer = self._head()
        expect(102 <= answer.status <= 199, f"status {answer.status} instead of an informational one")
        for name in ("connection", "content-length", "transfer-encoding", "date", "server"):
            equal(answer.all(name), [], f"{name} in an informational response")
        return answer

    def answer(self, head_only=False, anonymous=False):
        """Reads one response, strictly; `anonymous`: it need not name a server."""
        answer = self._head()
        length, coding = answer.one("content-length"), answer.one("transfer-encoding")
        expect(length is None or coding is None, "both Content-Length and Transfer-Encoding")
        expect(answer.status == 101 or answer.one("date"), "no Date")
        expect(answer.status == 101 or anonymous or answer.one("server"), "no Server")
        if head_only or answer.status in (204, 304):
            return answer
        if coding is not None:
            equal(coding, "chunked", "Transfer-Encoding")
            answer.how = "chunked"
            answer.body, answer.trailers = self._chunked()
        elif length is not None:
            answer.how, answer.body = "length", self.read_exactly(int(length))
        else:
            answer.how = "close"
        return answer

    def _chunked(self):
        body = b""
        while True:
            size = int(self._until(b"\r\n"), 16)
            if size == 0:
                return body, self._trailers()
            body += self.read_exactly(size)
            equal(self.read_exactly(2), b"\r\n", "end of a chunk")

    def _trailers(self):
        trailers = []
        while line := self._until(b"\r\n").decode("latin-1"):
            trailers.append(_field(line))
        return trailers

    def fill(self, first):
        """Sends so much to the client, beginning with `first`, that the socket takes no more; how much it was."""
        sent, data, is_full = 0, first, False
        while True:
            try:
                sent += self.far.send(data)
                is_full = False
            except BlockingIOError:
                if is_full:
                    return sent
                # The client's kernel may still be moving bytes, and select() tells of room only when a third is free.
                is_full = not select.select([], [self.far], [], 0.3)[1]
            data = b"z" * 65536

    def fileno(self):
        """So that the client's end can be waited for."""
        return self.near.fileno()

    def rest(self):
        """What comes until the end of the connection."""
        while self.more():
            pass
        data, self._data = self._data, b""
        return data

    def is_quiet(self):
        """Nothing received that was not read, and no end."""
        return not self._data and not select.select([self.near], [], [], 0)[0]


def _read_all(descriptor, offset, length):
    pieces = []
    while length:
        piece = os.pread(descriptor, length, offset)
        expect(piece, f"a file that ends {length} bytes before what its TAIL says")
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)


def _names_of_files(pid):
    folder, names = f"/proc/{pid}/fd", []
    for number in os.listdir(folder):
        try:
            names.append(os.readlink(f"{folder}/{number}"))
        except FileNotFoundError:
            continue
    return names


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def _lower_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT_OF_FILES, hard))


class Worker:
    """An adapter that was started, and the server's end of its channel."""

    def __init__(self, command, recovery=False):
        sock, theirs = socket.socketpair()
        self._begin(sock)
        passed = [theirs]
        environment = {**os.environ, "MAITRED_CHANNEL": str(theirs.fileno())}
        environment.pop("MAITRED_RECOVERY", None)
        if recovery:
            self.recovery, ours = socket.socketpair()
            environment["MAITRED_RECOVERY"] = str(ours.fileno())
            passed.append(ours)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[one.fileno() for one in passed],
            env=environment,
            preexec_fn=_lower_limit,
            start_new_session=True,
        )
        for one in passed:
            one.close()

    def _begin(self, sock):
        self._open(sock)
        self.process = None
        # Over which the adapter gets other channels, if the case is about that.
        self.recovery = None
        self.recovers = False
        self._arrived = []
        self.limits = []
        self._clients = []
        self._reading = []
        self._request = 0
        self.capacity = 1
        self.sockets_only = False
        # Whether it has said that it takes bodies while they come.
        self.streams = False
        # Whether a 404 is what a case wants; otherwise it says that the reference application lacks something.
        self.wants_404 = False
        # Descriptors of the last frame that was read; a case that keeps one takes it out.
        self.taken = []

    def _open(self, sock):
        self.sock = sock
        self.sock.settimeout(DEADLINE_S)
        self._data = b""
        self._tails = {}
        # Of what was sent: what is no whole frame yet, descriptors that no frame has taken, whose connections and requests are.
        self._said, self._passed, self._owners, self._asked = b"", [], {}, {}
        # Of what was received: what is no whole frame yet, TAILs without their DONE, and whose were delivered.
        self._ahead, self._held, self._early = b"", {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        if self.recovery is not None:
            self.recovery.close()
        for client in self._clients:
            client.close()
        for descriptor in self._arrived + self.taken:
            os.close(descriptor)
        self._end()

    def _end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def welcome(self):
        """Reads HELLO, answers WELCOME; returns (lowest version, highest version, capacity, name)."""
        kind, flags, connection, request, payload = self.read_frame()
        equal(kind, HELLO, "kind of the first frame")
        allowed = SOCKETS_ONLY if self.recovery is None else SOCKETS_ONLY | RECOVERS
        equal((flags & ~allowed, connection, request), (0, 0, 0), "flags and numbers of HELLO")
        self.sockets_only, self.recovers = bool(flags & SOCKETS_ONLY), bool(flags & RECOVERS)
        expect(8 <= len(payload) <= 72, f"HELLO has a payload of {len(payload)} bytes")
        self.send(frame(WELCOME, struct.pack("<HHI", 1, 0, PAYLOAD_BYTES_MAX)))
        lowest, highest, self.capacity = struct.unpack_from("<HHI", payload)
        return lowest, highest, self.capacity, payload[8:].decode()

    def lose(self):
        """The process with this end of the channel dies."""
        self.sock.close()

    def renew(self):
        """Gives the adapter another channel."""
        sock, theirs = socket.socketpair()
        socket.send_fds(self.recovery, [b"\0"], [theirs.fileno()])
        theirs.close()
        self._open(sock)

    def need_concurrency(self):
        """`welcome`, for cases that make sense only if several requests run at a time."""
        self.welcome()
        if self.capacity == 1:
            raise Skipped("one request at a time")

    def need_files(self):
        """`welcome`, for cases that pass a file to the worker."""
        self.welcome()
        if self.sockets_only:
            raise Skipped("it takes sockets only")

    def client(self, relay=False):
        """A new client connection, or a relay."""
        client = Client(relay)
        client.worker = self
        self._clients.append(client)
        return client

    def drop(self, client):
        """Closes a client's connection before the case ends."""
        self._clients.remove(client)
        client.close()

    def names_of_files(self):
        """What the adapter's descriptors are."""
        return sorted(_names_of_files(self.process.pid))

    def open_files(self):
        """How many descriptors the adapter has open."""
        return len(self.names_of_files())

    def _note(self, data, descriptors):
        """Whose connections the requests are of that are sent, also in pieces: a TAIL may be the whole response to one."""
        self._said += data
        self._passed += descriptors
        while len(self._said) >= HEADER.size:
            size, kind, _, count, connection, request = HEADER.unpack_from(self._said)
            if len(self._said) < HEADER.size + size:
                return
            self._said = self._said[HEADER.size + size :]
            taken, self._passed = self._passed[:count], self._passed[count:]
            if kind == REQUEST and taken:
                self._owners[connection] = next((one for one in self._clients if one.far.fileno() == taken[0]), None)
            if kind == REQUEST:
                self._asked[connection, request] = self._owners.get(connection)

    def _look(self):
        """Delivers responses that TAILs hold as a whole, whatever the case reads first: the client or the channel."""
        while len(self._ahead) >= HEADER.size:
            size, kind, flags, _, connection, request = HEADER.unpack_from(self._ahead)
            if len(self._ahead) < HEADER.size + size:
                return
            payload = self._ahead[HEADER.size : HEADER.size + size]
            self._ahead = self._ahead[HEADER.size + size :]
            key = (connection, request)
            if kind == TAIL:
                # Of a file, the case says when.
                self._held[key] = None if flags or key in self._held else payload
            elif kind == DONE:
                data, client = self._held.pop(key, None), self._asked.get(key)
                if data and data.startswith(b"HTTP/1.1 ") and client and client.takes(data):
                    client.deliver(data)
                    self._early[key] = client

    def send(self, data, descriptors=()):
        """Sends bytes, the descriptors with the first of them; one by one, in messages of one byte, to a worker that wants
        no more than one in a message."""
        self._note(data, list(descriptors))
        self._send(data, descriptors)

    def _send(self, data, descriptors):
        if not data:
            return
        while self.sockets_only and len(descriptors) > 1:
            self._send(data[:1], descriptors[:1])
            data, descriptors = data[1:], descriptors[1:]
        if descriptors:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            data = data[self.sock.sendmsg([data], rights) :]
        # Sending nothing fails, too, if the adapter has acted on all of it and is gone.
        if data:
            self.sock.sendall(data)

    def await_reading(self):
        """Until the adapter has received what was sent."""
        limit = time.monotonic() + DEADLINE_S
        while _queued(self.sock):
            expect(time.monotonic() < limit, "the adapter does not read the channel")
            os.sched_yield()

    def read_frame(self):
        """The next frame from the adapter: kind, flags, connection, request, payload."""
        while True:
            if len(self._data) >= HEADER.size:
                size, kind, flags, descriptors, connection, request = HEADER.unpack_from(self._data)
                expect(size <= TAIL_BYTES_MAX, f"a frame with a payload of {size} bytes")
                wanted = 1 if kind == TAIL and flags == FILE else 0
                equal(descriptors, wanted, f"descriptors of a frame of kind {kind}")
                if len(self._data) >= HEADER.size + size:
                    payload = self._data[HEADER.size : HEADER.size + size]
                    self._data = self._data[HEADER.size + size :]
                    self._take(descriptors)
                    if kind == LIMITS:
                        expect(flags == OPTIONAL and size == 4 and payload != bytes(4), "LIMITS is not as it has to be")
                        self.limits.append(struct.unpack("<I", payload)[0])
                        continue
                    if kind == STREAMS:
                        equal((flags, connection, request, payload), (OPTIONAL, 0, 0, b""), "STREAMS")
                        self.streams = True
                        continue
                    return kind, flags, connection, request, payload
            self._receive()

    def _receive(self):
        """Waits for bytes of the channel; meanwhile those clients read that are to."""
        while True:
            readable, _, _ = select.select([self.sock, *self._reading], [], [], DEADLINE_S)
            expect(readable, "the adapter says nothing")
            for client in [client for client in self._reading if client in readable]:
                if not client.more():
                    self._reading.remove(client)
            if self.sock in readable:
                break
        if not self.read_ahead():
            raise Failure(f"the adapter closed the channel; it said: {self.errors() if self._exited() else ''}")

    @property
    def is_open(self):
        """Whether the channel is there to be read."""
        return self.sock.fileno() >= 0

    def read_ahead(self):
        """Receives from the channel. False at its end."""
        data, ancillary, flags, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)
        for _, _, rights in ancillary:
            self._arrived += array.array("i", rights)
        expect(not flags & socket.MSG_CTRUNC, "more descriptors in one message than one can have")
        self._data += data
        self._ahead += data
        self._look()
        return bool(data)

    def _take(self, count):
        for descriptor in self.taken:
            os.close(descriptor)
        expect(len(self._arrived) >= count, "a complete frame whose descriptor has not come")
        self.taken, self._arrived = self._arrived[:count], self._arrived[count:]

    def done(self):
        """The next DONE, with the TAILs of its request; nothing else may come before it. A response that is there as a whole, in
        TAILs, is delivered."""
        while True:
            kind, flags, connection, request, payload = self.read_frame()
            if kind == TAIL:
                self._tail(flags, connection, request, payload)
                continue
            equal(kind, DONE, "kind of a frame")
            done = Done(flags, connection, request, payload, self._tails.pop((connection, request), ()))
            if done.status == 404 and not self.wants_404:
                raise Skipped("the reference application answers 404")
            client = self._early.pop((connection, request), None)
            if client:
                client.delivered = done.tail
            return done

    def _tail(self, flags, connection, request, payload):
        expect(flags in (0, FILE), f"TAIL has flags {flags:#x}")
        known = self._tails.setdefault((connection, request), [])
        if flags == FILE:
            equal(len(payload), 16, "payload of TAIL with FILE")
            offset, length = struct.unpack("<QQ", payload)
            expect(stat.S_ISREG(os.fstat(self.taken[0]).st_mode), "a TAIL whose descriptor is no regular file")
            expect(length > 0, "a TAIL of no bytes of a file")
            payload = _read_all(self.taken[0], offset, length)
        else:
            expect(payload, "a TAIL of no bytes")
        known.append((flags, payload))
        expect(len(known) <= TAILS_MAX, f"more than {TAILS_MAX} TAILs of one request")
        inline = sum(len(data) for flags, data in known if not flags)
        expect(inline <= TAIL_TOTAL_BYTES_MAX, f"more than {TAIL_TOTAL_BYTES_MAX} bytes in TAILs of one request")

    def at_end(self):
        """Whether the adapter has closed the channel, without another frame."""
        while data := self.sock.recv(65536):
            self._data += data
        while self._data[4:5] in (bytes([LIMITS]), bytes([STREAMS])):
            self._data = self._data[HEADER.size + self._data[0] :]
        return not self._data

    def ask(self, target, client=None, descriptors=(), **options):
        """One request, one response, one DONE, on a connection of its own. Returns (answer, done, client)."""
        self._request += 1
        number = self._request
        client = client or self.client()
        data = request_frame(number + 1000, number, target, descriptors=1, **options)
        self.send(data, [client.far.fileno(), *descriptors])
        done = self.done_of(client)
        says = options.get("says", {})
        answer = client.answer(options.get("method") == "HEAD", says.get("server_header") == 0)
        expect("trailers" in says or not answer.trailers, "trailers, which the client does not take")
        if answer.how == "close":
            client.far.shutdown(socket.SHUT_WR)
            answer.body = client.rest()
        equal((done.connection, done.request), (number + 1000, number), "numbers in DONE")
        if done.status != 0:
            equal(done.status, answer.status, "status in DONE")
        return answer, done, client

    def done_of(self, client):
        """The next DONE, while `client` reads; what TAILs say is delivered to it."""
        done = self.done_while(client)
        client.deliver(done.tail)
        return done

    def done_while(self, client):
        """The next DONE, of whatever request, while `client` reads."""
        self._reading.append(client)
        done = self.done()
        if client in self._reading:
            self._reading.remove(client)
        return done

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


class Connected(Worker):
    """An adapter inside an external server that listens for channels: the end of a channel stands for the exit
    of the process, a line about it in the server's log for standard error."""

    def __init__(self, path, log):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        self._begin(sock)
        self._log = log
        self._log_from = os.stat(log).st_size

    def _end(self):
        """The server goes on."""

    def names_of_files(self):
        """The same for all processes of the server."""
        credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        main, _, _ = struct.unpack("3i", credentials)
        return sorted(name for pid in [main, *_children(main)] for name in _names_of_files(pid))

    def signal(self, number):
        """Signals are for processes that Maitred has started."""
        raise Skipped("the process is not Maitred's")

    def exit_status(self):
        """0 if the channel ends without a word, otherwise 1."""
        while self.sock.fileno() >= 0 and self.sock.recv(65536):
            pass
        return 1 if self.errors() else 0

    def errors(self):
        """What the server has written to its log about the channel."""
        with open(self._log, encoding="utf-8", errors="replace") as log:
            log.seek(self._log_from)
            return "".join(line for line in log if "channel" in line)

    def _exited(self):
        return True
