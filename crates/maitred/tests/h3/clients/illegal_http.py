"""Frames and streams of HTTP/3 (RFC 9114) in the wrong place or of the wrong form."""

from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import ErrorCode, FrameType, Setting, StreamType, encode_frame, encode_settings

from illegal import application, connection_error
from raw import Silent

UNEXPECTED = application(ErrorCode.H3_FRAME_UNEXPECTED)
FRAME_ERROR = application(ErrorCode.H3_FRAME_ERROR)
SETTINGS_ERROR = application(ErrorCode.H3_SETTINGS_ERROR)
ID_ERROR = application(ErrorCode.H3_ID_ERROR)
CRITICAL = application(ErrorCode.H3_CLOSED_CRITICAL_STREAM)
CREATION = application(ErrorCode.H3_STREAM_CREATION_ERROR)
MISSING = application(ErrorCode.H3_MISSING_SETTINGS)

# Frame types of HTTP/2 that mean nothing here (9114-7.2.8): PRIORITY, PING, WINDOW_UPDATE, CONTINUATION.
OF_HTTP2 = (0x02, 0x06, 0x08, 0x09)
NUMBER = encode_uint_var


def control(client, *frames):
    """A control stream of a client that has none."""
    stream = client.uni_stream()
    client.send_raw(stream, NUMBER(StreamType.CONTROL) + b"".join(frames))
    return stream


def settings(client, pairs):
    """SETTINGS with these pairs, in their order."""
    data = b"".join(NUMBER(number) + NUMBER(value) for number, value in pairs)
    control(client, encode_frame(FrameType.SETTINGS, data))


def begun(client):
    """A request without its end."""
    stream, _ = client.new_stream()
    client.http.send_headers(stream, client.head("POST", "/app/upload"))
    return stream


def on_request(client, kind, data=b"", after_head=True):
    stream = begun(client) if after_head else client.new_stream()[0]
    client.send_frame(stream, kind, data)


def on_control(client, kind, data=b""):
    client.send_frame(client.control_stream(), kind, data)


@connection_error("9114-4.1", "DATA before HEADERS", UNEXPECTED)
def data_before_headers(client):
    on_request(client, FrameType.DATA, b"early", after_head=False)


@connection_error("9114-4.1", "DATA after trailers", UNEXPECTED)
def data_after_trailers(client):
    stream = begun(client)
    client.http.send_headers(stream, [(b"x-trailer", b"1")])
    client.send_frame(stream, FrameType.DATA, b"late")


@connection_error("9114-4.1", "HEADERS after trailers", UNEXPECTED)
def headers_after_trailers(client):
    stream = begun(client)
    client.http.send_headers(stream, [(b"x-trailer", b"1")])
    client.send_frame(stream, FrameType.HEADERS, client.http._encode_headers(stream, [(b"x-more", b"1")]))


@connection_error("9114-6.2.1", "a frame before SETTINGS", MISSING, http=Silent)
def missing_settings(client):
    control(client, encode_frame(FrameType.GOAWAY, NUMBER(0)))


@connection_error("9114-6.2.1", "a frame of an unknown type before SETTINGS", MISSING, http=Silent)
def unknown_before_settings(client):
    control(client, encode_frame(0x21, b"grease"))


@connection_error("9114-6.2.1", "a second control stream", CREATION)
def second_control_stream(client):
    control(client, encode_frame(FrameType.SETTINGS, encode_settings({})))


@connection_error("9114-6.2.2", "a push stream of a client", CREATION)
def push_stream(client):
    client.send_raw(client.uni_stream(), NUMBER(StreamType.PUSH) + NUMBER(0))


@connection_error("9114-6.2.1", "the control stream ends", CRITICAL)
def control_stream_ends(client):
    client.send_raw(client.control_stream(), b"", end=True)


@connection_error("9114-6.2.1", "the control stream is reset", CRITICAL)
async def control_stream_reset(client):
    # The server has to know by then what it is: a reset discards what was not read.
    await client.get("/a.txt")
    client._quic.reset_stream(client.control_stream(), ErrorCode.H3_NO_ERROR)


@connection_error("9114-6.2.1", "STOP_SENDING for the server's control stream", CRITICAL)
def server_control_stream_stopped(client):
    # Its first unidirectional stream, of which the server may send its SETTINGS at the earliest.
    client._quic.stop_stream(client.http._peer_control_stream_id or 3, ErrorCode.H3_NO_ERROR)


@connection_error("9114-7.2.1", "DATA on the control stream", UNEXPECTED)
def data_on_control(client):
    on_control(client, FrameType.DATA, b"x")


@connection_error("9114-7.2.2", "HEADERS on the control stream", UNEXPECTED)
def headers_on_control(client):
    on_control(client, FrameType.HEADERS, b"\0\0")


@connection_error("9114-7.2.3", "CANCEL_PUSH on a request stream", UNEXPECTED)
def cancel_push_on_request(client):
    on_request(client, FrameType.CANCEL_PUSH, NUMBER(0))


@connection_error("9114-7.2.3", "CANCEL_PUSH of a push that was not promised", ID_ERROR)
def cancel_push_unknown(client):
    on_control(client, FrameType.CANCEL_PUSH, NUMBER(3))


@connection_error("9114-7.2.4", "SETTINGS on a request stream", UNEXPECTED)
def settings_on_request(client):
    on_request(client, FrameType.SETTINGS, after_head=False)


@connection_error("9114-7.2.4", "a second SETTINGS", UNEXPECTED)
def second_settings(client):
    on_control(client, FrameType.SETTINGS)


@connection_error("9114-7.2.4", "the same setting twice", SETTINGS_ERROR, http=Silent)
def duplicate_setting(client):
    settings(client, [(Setting.MAX_FIELD_SECTION_SIZE, 1000)] * 2)


@connection_error("9114-7.2.4.1", "a setting of HTTP/2 (0x02)", SETTINGS_ERROR, http=Silent)
def setting_of_http2_2(client):
    settings(client, [(2, 0)])


@connection_error("9114-7.2.4.1", "a setting of HTTP/2 (0x03)", SETTINGS_ERROR, http=Silent)
def setting_of_http2_3(client):
    settings(client, [(3, 100)])


@connection_error("9114-7.2.4.1", "a setting of HTTP/2 (0x04)", SETTINGS_ERROR, http=Silent)
def setting_of_http2_4(client):
    settings(client, [(4, 65_535)])


@connection_error("9114-7.2.4.1", "a setting of HTTP/2 (0x05)", SETTINGS_ERROR, http=Silent)
def setting_of_http2_5(client):
    settings(client, [(5, 16_384)])


@connection_error("9220-3, 8441-3", "SETTINGS_ENABLE_CONNECT_PROTOCOL of 2", SETTINGS_ERROR, http=Silent)
def connect_protocol_of_2(client):
    settings(client, [(Setting.ENABLE_CONNECT_PROTOCOL, 2)])


@connection_error("9297-2.1.1", "SETTINGS_H3_DATAGRAM of 2", SETTINGS_ERROR, http=Silent)
def h3_datagram_of_2(client):
    settings(client, [(Setting.H3_DATAGRAM, 2)])


@connection_error("9114-7.1", "SETTINGS that end within a pair", FRAME_ERROR + SETTINGS_ERROR, http=Silent)
def truncated_settings(client):
    control(client, encode_frame(FrameType.SETTINGS, NUMBER(Setting.MAX_FIELD_SECTION_SIZE)))


@connection_error("9114-7.2.5", "PUSH_PROMISE on a request stream", UNEXPECTED)
def push_promise_on_request(client):
    on_request(client, FrameType.PUSH_PROMISE, NUMBER(0) + b"\0\0")


@connection_error("9114-7.2.5", "PUSH_PROMISE on the control stream", UNEXPECTED)
def push_promise_on_control(client):
    on_control(client, FrameType.PUSH_PROMISE, NUMBER(0) + b"\0\0")


@connection_error("9114-7.2.6", "GOAWAY on a request stream", UNEXPECTED)
def goaway_on_request(client):
    on_request(client, FrameType.GOAWAY, NUMBER(0))


@connection_error("9114-5.2", "GOAWAY with a larger number than before", ID_ERROR)
def growing_goaway(client):
    on_control(client, FrameType.GOAWAY, NUMBER(4))
    on_control(client, FrameType.GOAWAY, NUMBER(8))


@connection_error("9114-7.1", "GOAWAY with more than a number", FRAME_ERROR)
def long_goaway(client):
    on_control(client, FrameType.GOAWAY, NUMBER(4) + b"more")


@connection_error("9114-7.1", "GOAWAY without a number", FRAME_ERROR)
def empty_goaway(client):
    on_control(client, FrameType.GOAWAY)


@connection_error("9114-7.2.7", "MAX_PUSH_ID on a request stream", UNEXPECTED)
def max_push_id_on_request(client):
    on_request(client, FrameType.MAX_PUSH_ID, NUMBER(0))


@connection_error("9114-7.2.7", "MAX_PUSH_ID that shrinks", ID_ERROR)
def shrinking_max_push_id(client):
    on_control(client, FrameType.MAX_PUSH_ID, NUMBER(8))
    on_control(client, FrameType.MAX_PUSH_ID, NUMBER(4))


@connection_error("9114-7.1", "MAX_PUSH_ID with more than a number", FRAME_ERROR)
def long_max_push_id(client):
    on_control(client, FrameType.MAX_PUSH_ID, NUMBER(8) + b"\0")


@connection_error("9114-7.1", "a stream that ends within HEADERS", FRAME_ERROR)
def truncated_headers(client):
    stream, _ = client.new_stream()
    client.send_raw(stream, NUMBER(FrameType.HEADERS) + NUMBER(100) + b"\0\0", end=True)


@connection_error("9114-7.1", "a stream that ends within DATA", FRAME_ERROR)
def truncated_data(client):
    client.send_raw(begun(client), NUMBER(FrameType.DATA) + NUMBER(100) + b"not a hundred", end=True)


@connection_error("9114-7.1", "a stream that ends within the head of a frame", FRAME_ERROR)
def truncated_frame_head(client):
    client.send_raw(begun(client), b"\x40", end=True)


@connection_error("9218-7.2", "PRIORITY_UPDATE on a request stream", UNEXPECTED)
def priority_update_on_request(client):
    on_request(client, 0xF0700, NUMBER(0) + b"u=1")


@connection_error("9218-7.2", "PRIORITY_UPDATE of a stream that is none of a request", ID_ERROR)
def priority_update_of_no_request(client):
    on_control(client, 0xF0700, NUMBER(2) + b"u=1")


@connection_error("9218-7.2", "PRIORITY_UPDATE of a push that was not promised", ID_ERROR)
def priority_update_of_no_push(client):
    on_control(client, 0xF0701, NUMBER(0) + b"u=1")


def of_http2(kind):
    """Each reserved type on both kinds of streams."""
    for name, send in (("control", on_control), ("request", on_request)):
        def act(client, send=send):
            send(client, kind, b"\0\0\0\0")
        act.__name__ = f"frame_of_http2_{kind}_on_{name}"
        connection_error("9114-7.2.8", f"a frame of HTTP/2 ({kind:#04x}) on a {name} stream", UNEXPECTED)(act)


for reserved in OF_HTTP2:
    of_http2(reserved)
