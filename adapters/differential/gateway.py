"""HTTP/1.1 to the cases, HTTP/2 to Maitred: what a client sees of a server that it reaches over HTTP/2.

Each connection of a case becomes one HTTP/2 connection with prior knowledge (RFC 9113 section 3.3), by the package h2, which
judges every frame that comes. Requests become streams one after another. A stream that is reset cuts the response; a client that
goes away in the middle resets its stream. An upgrade to WebSocket becomes an extended CONNECT (RFC 8441).
"""

import base64
import hashlib
import http.client
import selectors
import socket
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from client import DEADLINE_S

_RECEIVE_BYTES = 256 * 1024
# What HTTP/2 does not have (RFC 9113 section 8.2.2).
_OF_CONNECTIONS = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"host"}
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class _Gone(Exception):
    """One of the two sides has closed."""


class Gateway:
    """Stands for a server (`servers.Server`), and ends it when it is left as a context."""

    def __init__(self, server):
        self.name = f"{server.name}, over HTTP/2"
        self.output = server.output
        self._behind, self._server = server.address, server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # close() alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._server.__exit__()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            try:
                behind = socket.create_connection(self._behind, DEADLINE_S)
            except OSError:
                return
            with behind:
                try:
                    _Link(client, behind).run()
                except (_Gone, OSError, h2.exceptions.ProtocolError) as error:
                    if isinstance(error, h2.exceptions.ProtocolError):
                        print(f"what Maitred sent over HTTP/2 breaks a rule: {error!r}", flush=True)


class _Link:
    """One connection of a case, and the one to Maitred."""

    def __init__(self, client, behind):
        self._client, self._behind = client, behind
        for each in (client, behind):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.settimeout(DEADLINE_S)
        # What the client has sent and the application has not taken yet.
        self._data = b""
        self._client_ended = False
        # Fields are bytes, as they are in HTTP/1.1.
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self._h2.initiate_connection()
        self._flush()

    def run(self):
        """Request after request, until the client or the server ends the connection."""
        while self._exchange():
            pass

    def _receive(self):
        """More of the client's bytes; False at its end."""
        if not self._client_ended:
            piece = self._client.recv(_RECEIVE_BYTES)
            self._client_ended = not piece
            self._data += piece
        return not self._client_ended

    def _flush(self):
        data = self._h2.data_to_send()
        if data:
            self._behind.sendall(data)

    def _head(self):
        """Words of the request line, and fields, of the next request; None if there is none."""
        while b"\r\n\r\n" not in self._data:
            if not self._receive():
                return None
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        line, *rest = head.split(b"\r\n")
        fields = [(name.lower(), value.strip()) for name, _, value in (field.partition(b":") for field in rest)]
        return line.split(b" "), fields

    def _line(self):
        while b"\r\n" not in self._data:
            yield None
        line, _, self._data = self._data.partition(b"\r\n")
        return line

    def _exactly(self, count):
        while count:
            piece, self._data = self._data[:count], self._data[count:]
            count -= len(piece)
            yield piece or None

    def _body(self, names):
        """Pieces of the request's body; None where the client has to send more first."""
        if b"chunked" not in names.get(b"transfer-encoding", b""):
            yield from self._exactly(int(names.get(b"content-length", 0)))
            return
        size = None
        while size != 0:
            size = int((yield from self._line()), 16)
            yield from self._exactly(size)
            yield from self._line()

    def _all(self):
        """Everything that comes, for ever: what is said in a tunnel."""
        while True:
            piece, self._data = self._data, b""
            yield piece or None

    def _exchange(self):
        """One request and its response; whether there may be another."""
        head = self._head()
        if head is None:
            return False
        (method, target, version), fields = head
        names = dict(fields)
        websocket = names.get(b"upgrade", b"").lower() == b"websocket"
        has_body = b"transfer-encoding" in names or names.get(b"content-length", b"0") != b"0"
        number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, _pseudo(method, target, names, websocket) + _kept(fields), not (has_body or websocket))
        response = _Response(self._client, method, version, names)
        body = self._body(names) if has_body else iter(())
        self._pump(number, response, body, ended=not (has_body or websocket))
        if names.get(b"expect") and not response.went_on:
            return False
        for piece in body:
            # Of a body that was not read, the rest is in the way of the next request.
            if piece is None and not self._receive():
                return False
        return response.keeps_alive

    def _pump(self, number, response, body, ended):
        """Moves both directions until the response has ended. `ended`: all of the request has been sent."""
        waiting, finished = b"", ended
        while not response.ended:
            if response.tunnel and not finished and not response.opened:
                response.opened, body = True, self._all()
            while not finished and (response.opened or not response.websocket):
                if not waiting:
                    piece = next(body, b"")
                    finished = piece == b""
                    waiting = piece or b""
                    if not waiting:
                        break
                waiting = self._send(number, waiting)
                if waiting:
                    break
            if finished and not waiting and not ended:
                self._h2.end_stream(number)
                ended = True
            self._flush()
            for event in self._wait(wants_more=not waiting and not self._client_ended):
                self._on(number, response, event)
            if self._client_ended and not response.ended:
                if not response.tunnel:
                    self._h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                    self._flush()
                    raise _Gone
                finished = not self._data

    def _send(self, number, data):
        """Sends what the windows allow; what is left."""
        while data:
            room = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size, len(data))
            if room <= 0:
                break
            self._h2.send_data(number, data[:room])
            data = data[room:]
        return data

    def _wait(self, wants_more):
        """Waits for either side; the events of Maitred's. The client's bytes are in `_data` then."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._behind, selectors.EVENT_READ)
            if wants_more:
                selector.register(self._client, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(DEADLINE_S)]
        if not ready:
            raise _Gone
        if self._client in ready:
            self._receive()
        if self._behind not in ready:
            return []
        data = self._behind.recv(_RECEIVE_BYTES)
        if not data:
            raise _Gone
        try:
            return self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            # The package takes nothing more after a GOAWAY, although streams may go on (RFC 9113 section 6.8).
            if self._h2.state_machine.state is h2.connection.ConnectionState.CLOSED:
                raise _Gone from error
            raise

    def _on(self, number, response, event):
        if getattr(event, "stream_id", number) != number:
            return
        if isinstance(event, h2.events.InformationalResponseReceived):
            response.interim(event.headers)
        elif isinstance(event, h2.events.ResponseReceived):
            response.head(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            response.data(event.data)
            if event.flow_controlled_length:
                self._h2.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, h2.events.StreamEnded):
            response.end()
        elif isinstance(event, h2.events.StreamReset) and not response.ended:
            raise _Gone


def _pseudo(method, target, names, websocket):
    more = [(b":protocol", b"websocket")] if websocket else []
    method = b"CONNECT" if websocket else method
    authority = [(b":authority", names[b"host"])] if b"host" in names else []
    return [(b":method", method), *more, (b":scheme", b"http"), (b":path", target), *authority]


def _kept(fields):
    return [(name, value) for name, value in fields if name not in _OF_CONNECTIONS and name != b"sec-websocket-key"]


class _Response:
    """What comes on a stream, written to the client as HTTP/1.1."""

    def __init__(self, client, method, version, names):
        self._client, self._method = client, method
        self._may_chunk = version == b"HTTP/1.1"
        self._key = names.get(b"sec-websocket-key", b"")
        self._chunked = False
        self.keeps_alive = self._may_chunk and names.get(b"connection", b"").lower() != b"close"
        self.websocket = names.get(b"upgrade", b"").lower() == b"websocket"
        # After an extended CONNECT that was agreed to, both directions carry anything, once the pump has `opened` it.
        self.tunnel = self.opened = self.ended = self.went_on = False

    def interim(self, fields):
        """100 and its like."""
        self.went_on = True
        self._write_head(fields, [])

    def head(self, fields):
        """The final response's head; sends it."""
        names = dict(fields)
        status = int(names[b":status"])
        if self.websocket and status == 200:
            self.tunnel, self.keeps_alive = True, False
            accept = base64.b64encode(hashlib.sha1(self._key + _GUID).digest())
            more = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-accept", accept)]
            return self._write_head([(b":status", b"101"), *fields[1:]], more)
        more = []
        if b"content-length" not in names and self._method != b"HEAD" and status not in (204, 304):
            self._chunked = self._may_chunk
            self.keeps_alive = self.keeps_alive and self._chunked
            more = [(b"transfer-encoding", b"chunked")] if self._chunked else []
        return self._write_head(fields, more)

    def _write_head(self, fields, more):
        status = int(dict(fields)[b":status"])
        line = b"HTTP/1.1 %d %s" % (status, http.client.responses.get(status, "").encode())
        lines = [b"%s: %s" % field for field in [*fields, *more] if not field[0].startswith(b":")]
        self._client.sendall(b"\r\n".join([line, *lines, b"", b""]))

    def data(self, data):
        """A piece of the body."""
        if data:
            self._client.sendall(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def end(self):
        """The end of it."""
        self.ended = True
        if self._chunked:
            self._client.sendall(b"0\r\n\r\n")
