"""A client of HTTP/3 by aioquic's building blocks: requests, and everything around them that a browser does not let one do."""

import asyncio
import contextlib
import socket
import ssl
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import FrameType, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StopSendingReceived, StreamDataReceived, StreamReset

# After this, something hangs.
TIMEOUT_SECS = 60
WINDOW_BYTES = 16 << 20


class Reset(Exception):
    """The server has reset a stream, with this code."""

    def __init__(self, code):
        super().__init__(f"the stream was reset with {code:#x}")
        self.code = code


class Closed(Exception):
    """The connection has ended: `code` is of the application if `of_application`, otherwise of the transport."""

    def __init__(self, event):
        self.code, self.of_application, self.reason = event.error_code, event.frame_type is None, event.reason_phrase
        kind = "application" if self.of_application else "transport"
        super().__init__(f"the connection was closed with {kind} error {self.code:#x} {self.reason!r}")


class Answer:
    """What has come of one response so far. `done` is when it has ended."""

    def __init__(self, loop):
        self.status, self.fields, self.trailers, self.content, self.interim = None, [], None, bytearray(), []
        self.begun, self.done = loop.create_future(), loop.create_future()
        # What nobody waits for is no error of the script.
        for future in (self.begun, self.done):
            future.add_done_callback(lambda future: future.cancelled() or future.exception())

    def take_head(self, fields):
        head = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
        if self.status is not None:
            self.trailers = head
            return
        status = int(dict(head)[":status"])
        if status < 200:
            self.interim.append(status)
            return
        self.status, self.fields = status, head
        self.begun.set_result(status)

    def field(self, name):
        return dict(self.fields).get(name)

    def end(self, error=None):
        for future in (self.begun, self.done):
            if not future.done():
                future.set_exception(error) if error else future.set_result(self)


class Http(H3Connection):
    """aioquic's, without its opinion of what a client may send, and of the length of a response to HEAD."""

    def __init__(self, quic):
        super().__init__(quic)
        self.control = b""

    def handle_event(self, event):
        said = super().handle_event(event)
        # aioquic drops what it does not act on.
        if isinstance(event, StreamDataReceived) and event.stream_id == self._peer_control_stream_id:
            self.control += event.data
        return said

    def goaway(self):
        """Numbers of GOAWAY. Before the first, requests may be answered; before the last, they are."""
        rest, found = Buffer(data=self.control), []
        with contextlib.suppress(BufferReadError):
            rest.pull_uint_var()
            while not rest.eof():
                kind, data = rest.pull_uint_var(), rest.pull_bytes(rest.pull_uint_var())
                if kind == FrameType.GOAWAY:
                    found.append(Buffer(data=data).pull_uint_var())
        return found

    def _check_content_length(self, stream):
        pass

    def _encode_headers(self, stream_id, headers):
        encoder, frame = self._encoder.encode(stream_id, headers)
        self._quic.send_stream_data(self._local_encoder_stream_id, encoder)
        return frame


class Client(QuicConnectionProtocol):
    """One connection. `http`: the class of its layer of HTTP/3."""

    def __init__(self, quic, http=Http):
        super().__init__(quic)
        self.http = http(quic)
        self.answers = {}
        self.authority = "localhost"
        self.handshake = self._loop.create_future()
        self.closed = self._loop.create_future()
        self.stopped = {}
        self.resets = {}

    def datagram_received(self, data, addr):
        super().datagram_received(data, addr)
        # aioquic speaks of the end when it has waited for more of it.
        if self._quic._close_event and not self.closed.done():
            self.take_end(self._quic._close_event)

    def take_end(self, event):
        error = Closed(event)
        self.closed.set_result(error)
        for answer in self.answers.values():
            answer.end(error)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted) and not self.handshake.done():
            self.handshake.set_result(event)
        elif isinstance(event, ConnectionTerminated) and not self.closed.done():
            self.take_end(event)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
            if event.stream_id in self.answers:
                self.answers[event.stream_id].end(Reset(event.error_code))
        elif isinstance(event, StopSendingReceived):
            self.stopped[event.stream_id] = event.error_code
        for said in self.http.handle_event(event):
            self.take(said)

    def take(self, event):
        answer = self.answers.get(event.stream_id)
        if answer is None:
            return
        if isinstance(event, HeadersReceived):
            answer.take_head(event.headers)
        elif isinstance(event, DataReceived):
            answer.content += event.data
        if event.stream_ended:
            answer.end()

    def new_stream(self):
        """A request stream, and what will come of its response."""
        stream = self._quic.get_next_available_stream_id()
        # aioquic counts a stream when something is sent on it.
        self._quic.send_stream_data(stream, b"")
        self.answers[stream] = Answer(self._loop)
        return stream, self.answers[stream]

    def head(self, method, path, fields=()):
        pseudo = {":method": method, ":scheme": "https", ":authority": self.authority, ":path": path}
        return [(name.encode(), value.encode()) for name, value in [*pseudo.items(), *fields]]

    def begin(self, method, path, fields=(), content=None, trailers=None):
        """Sends a request, and gives its stream and what will come."""
        stream, answer = self.new_stream()
        self.http.send_headers(stream, self.head(method, path, fields), content is None and trailers is None)
        if content is not None:
            self.http.send_data(stream, content, trailers is None)
        if trailers is not None:
            self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in trailers], True)
        self.transmit()
        return stream, answer

    async def request(self, method, path, fields=(), content=None, trailers=None):
        _, answer = self.begin(method, path, fields, content, trailers)
        return await in_time(answer.done)

    async def get(self, path, fields=()):
        return await self.request("GET", path, fields)

    def send_raw(self, stream, data, end=False):
        """Bytes on a stream, whatever they are."""
        self._quic.send_stream_data(stream, data, end)
        self.transmit()

    def send_frame(self, stream, kind, data, end=False):
        self.send_raw(stream, encode_frame(kind, data), end)

    def control_stream(self):
        return self.http._local_control_stream_id

    def encoder_stream(self):
        return self.http._local_encoder_stream_id

    def decoder_stream(self):
        return self.http._local_decoder_stream_id

    def uni_stream(self):
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(stream, b"")
        return stream

    async def move(self, with_new_id):
        """Goes on from another socket: as a migration, with another connection ID, or as a NAT would."""
        old = self._transport
        transport, _ = await self._loop.create_datagram_endpoint(lambda: Forward(self), sock=new_socket())
        self._transport = Sending(transport)
        if with_new_id:
            self.change_connection_id()
        old.close()
        return transport.get_extra_info("sockname")


    def leave(self):
        """Says goodbye, and waits for nothing."""
        self.close()
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()
        self._transport = Sending(None)


class Forward(asyncio.DatagramProtocol):
    """Gives what a further socket receives to the connection."""

    def __init__(self, client):
        self.client = client

    def datagram_received(self, data, addr):
        self.client.datagram_received(data, addr)


class Sending:
    """What a connection sends through once it has left its first socket; without a transport, nothing is sent."""

    def __init__(self, transport):
        self.transport = transport

    def sendto(self, data, addr):
        if self.transport is not None:
            self.transport.sendto(data, addr)

    def close(self):
        self.transport.close()


def new_socket():
    created = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    created.bind(("127.0.0.1", 0))
    created.setblocking(False)
    # 4 MiB is more than the usual limit: the kernel gives what it may.
    created.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return created


async def in_time(awaitable, seconds=TIMEOUT_SECS):
    # A future is looked at again afterwards.
    shielded = asyncio.shield(awaitable) if isinstance(awaitable, asyncio.Future) else awaitable
    return await asyncio.wait_for(shielded, seconds)


def configuration(ca, **more):
    made = QuicConfiguration(
        alpn_protocols=["h3"], is_client=True, server_name="localhost",
        max_data=WINDOW_BYTES, max_stream_data=WINDOW_BYTES,
    )
    if ca:
        made.load_verify_locations(cafile=ca)
    else:
        made.verify_mode = ssl.CERT_NONE
    for name, value in more.items():
        setattr(made, name, value)
    return made


@contextlib.asynccontextmanager
async def connect(origin, ca, *, connection=QuicConnection, http=Http, wait=True, tickets=None, tokens=None, **more):
    """A connection to the origin. `connection` and `http`: the classes of it; `tickets`: a list that gets the session's."""
    url = urlsplit(origin)
    quic = connection(
        configuration=configuration(ca, **more),
        session_ticket_handler=tickets.append if tickets is not None else None,
        token_handler=tokens.append if tokens is not None else None,
    )
    loop = asyncio.get_running_loop()
    _, client = await loop.create_datagram_endpoint(lambda: Client(quic, http), sock=new_socket())
    client.authority = url.netloc
    try:
        client.connect(("127.0.0.1", url.port), transmit=wait)
        if wait:
            await in_time(asyncio.wait([client.handshake, client.closed], return_when=asyncio.FIRST_COMPLETED))
            if not client.handshake.done():
                raise client.closed.result()
        yield client
    finally:
        client.leave()
