"""Packets, frames, transport parameters and TLS of QUIC (RFC 9000, 9001) that a client must not send."""

import os

from aioquic.buffer import encode_uint_var
from aioquic.quic.packet import QuicErrorCode

from h3 import connect, in_time
from illegal import NOTICE_SECS, alert, connection_error, shown, table, transport
from raw import Raw, send_packet
from table import check

FRAME_ENCODING = transport(QuicErrorCode.FRAME_ENCODING_ERROR)
VIOLATION = transport(QuicErrorCode.PROTOCOL_VIOLATION)
STREAM_STATE = transport(QuicErrorCode.STREAM_STATE_ERROR)
STREAM_LIMIT = transport(QuicErrorCode.STREAM_LIMIT_ERROR)
FLOW_CONTROL = transport(QuicErrorCode.FLOW_CONTROL_ERROR)
FINAL_SIZE = transport(QuicErrorCode.FINAL_SIZE_ERROR)
PARAMETER = transport(QuicErrorCode.TRANSPORT_PARAMETER_ERROR)
ID_LIMIT = transport(QuicErrorCode.CONNECTION_ID_LIMIT_ERROR)
BUFFER = transport(QuicErrorCode.CRYPTO_BUFFER_EXCEEDED)
UNEXPECTED_MESSAGE = alert(10)
MISSING_EXTENSION = alert(109)
NO_APPLICATION_PROTOCOL = alert(120)

NUMBER = encode_uint_var
# Streams, by whose they are and in how many directions (9000-2.1): the first of each kind, and one that is never open.
CLIENT_BIDI, SERVER_BIDI, CLIENT_UNI, SERVER_UNI = 0, 1, 2, 3
LARGEST = (1 << 62) - 1
TOO_MANY_STREAMS = NUMBER((1 << 60) + 1)
# Messages of TLS: type, length, content.
KEY_UPDATE = b"\x18\0\0\x01\0"
END_OF_EARLY_DATA = b"\x05\0\0\0"


def frames(rule, what, expected, name, *payload):
    """A case that is a packet with these bytes."""
    def act(client):
        send_packet(client, b"".join(payload))
    act.__name__ = name
    connection_error(rule, what, expected)(act)


def stream_frame(stream, offset, data, end=False):
    """With offset and length."""
    return NUMBER(0x0E | end) + NUMBER(stream) + NUMBER(offset) + NUMBER(len(data)) + data


def new_connection_id(number, retire, length):
    return b"\x18" + NUMBER(number) + NUMBER(retire) + bytes([length]) + os.urandom(length) + os.urandom(16)


frames("9000-12.4", "a frame of an unknown type", FRAME_ENCODING + VIOLATION, "unknown_frame", NUMBER(0x3F21))
frames("9000-12.4", "a packet without frames", VIOLATION, "no_frames")
frames("9000-4.1", "STREAM beyond the stream's window", FLOW_CONTROL, "flow_control", stream_frame(CLIENT_BIDI, 1 << 40, b"x"))
frames("9000-19.8", "STREAM that ends beyond 2^62", FRAME_ENCODING + FLOW_CONTROL, "stream_beyond_all", stream_frame(0, LARGEST, b"xx"))
frames("9000-4.6", "a stream beyond the limit", STREAM_LIMIT, "stream_limit", stream_frame(4 << 40, 0, b"x"))
frames("9000-4.5", "STREAM after the end of the stream", FINAL_SIZE, "final_size",
       stream_frame(CLIENT_BIDI, 0, b"x", end=True), stream_frame(CLIENT_BIDI, 5, b"y"))
frames("9000-4.5", "RESET_STREAM with less than was sent", FINAL_SIZE, "final_size_of_reset",
       stream_frame(CLIENT_BIDI, 10, b"xxxx"), b"\x04" + NUMBER(CLIENT_BIDI) + NUMBER(0x10C) + NUMBER(3))
frames("9000-19.4", "RESET_STREAM of a stream of the server's", STREAM_STATE, "reset_of_send_only",
       b"\x04" + NUMBER(SERVER_UNI) + NUMBER(0) + NUMBER(0))
frames("9000-19.5", "STOP_SENDING of a stream that is not there", STREAM_STATE, "stop_of_nothing",
       b"\x05" + NUMBER(SERVER_BIDI) + NUMBER(0))
frames("9000-19.5", "STOP_SENDING of a stream of the client's", STREAM_STATE, "stop_of_receive_only",
       b"\x05" + NUMBER(CLIENT_UNI) + NUMBER(0))
frames("9000-19.8", "STREAM of a stream that the server has not begun", STREAM_STATE, "stream_of_nothing",
       stream_frame(SERVER_BIDI, 0, b"x"))
frames("9000-19.8", "STREAM of a stream on which only the server sends", STREAM_STATE, "stream_of_send_only",
       stream_frame(SERVER_UNI, 0, b"x"))
frames("9000-19.10", "MAX_STREAM_DATA of a stream that is not there", STREAM_STATE, "max_stream_data_of_nothing",
       b"\x11" + NUMBER(SERVER_BIDI) + NUMBER(1000))
frames("9000-19.10", "MAX_STREAM_DATA of a stream on which only the client sends", STREAM_STATE, "max_stream_data_of_receive_only",
       b"\x11" + NUMBER(CLIENT_UNI) + NUMBER(1000))
frames("9000-19.11", "MAX_STREAMS beyond 2^60, both directions", FRAME_ENCODING, "max_streams_bidi", b"\x12" + TOO_MANY_STREAMS)
frames("9000-19.11", "MAX_STREAMS beyond 2^60, one direction", FRAME_ENCODING, "max_streams_uni", b"\x13" + TOO_MANY_STREAMS)
frames("9000-19.13", "STREAM_DATA_BLOCKED of a stream on which only the server sends", STREAM_STATE, "blocked_of_send_only",
       b"\x15" + NUMBER(SERVER_UNI) + NUMBER(0))
frames("9000-19.14", "STREAMS_BLOCKED beyond 2^60", FRAME_ENCODING + STREAM_LIMIT, "streams_blocked", b"\x16" + TOO_MANY_STREAMS)
frames("9000-19.15", "NEW_CONNECTION_ID that retires later ones", FRAME_ENCODING, "retire_prior_to", new_connection_id(10, 11, 8))
frames("9000-19.15", "NEW_CONNECTION_ID of no bytes", FRAME_ENCODING, "empty_connection_id", new_connection_id(10, 0, 0))
frames("9000-19.15", "NEW_CONNECTION_ID of 21 bytes", FRAME_ENCODING, "long_connection_id", new_connection_id(10, 0, 21))
frames("9000-5.1.1", "more connection IDs than the server takes", ID_LIMIT, "connection_id_limit",
       *(new_connection_id(number, 0, 8) for number in range(10, 40)))
frames("9000-19.16", "RETIRE_CONNECTION_ID of one that was not issued", VIOLATION, "retire_of_nothing", b"\x19" + NUMBER(1000))
frames("9000-13.1", "an acknowledgment of a packet that was not sent", VIOLATION, "ack_of_nothing",
       b"\x02" + NUMBER(1 << 30) + NUMBER(0) + NUMBER(0) + NUMBER(0))
frames("9000-19.3.1", "an acknowledgment below packet 0", FRAME_ENCODING, "negative_ack",
       b"\x02" + NUMBER(0) + NUMBER(0) + NUMBER(0) + NUMBER(5))
frames("9000-19.7", "NEW_TOKEN of a client", VIOLATION, "new_token", b"\x07\x01\x00")
frames("9000-19.20", "HANDSHAKE_DONE of a client", VIOLATION, "handshake_done", b"\x1e")
frames("9000-19.8", "a frame that ends within itself", FRAME_ENCODING, "truncated_frame", b"\x0e\x00")
frames("9000-7.5", "CRYPTO far ahead", BUFFER + FLOW_CONTROL, "crypto_far_ahead", b"\x06" + NUMBER(1 << 30) + b"\x01x")
frames("9000-19.6", "CRYPTO that ends beyond 2^62", FRAME_ENCODING + BUFFER, "crypto_beyond_all", b"\x06" + NUMBER(LARGEST) + b"\x02xx")
frames("9001-6", "KeyUpdate of TLS", UNEXPECTED_MESSAGE, "key_update_of_tls",
       b"\x06\0" + NUMBER(len(KEY_UPDATE)) + KEY_UPDATE)


@connection_error("9000-17.3.1", "reserved bits of a short header", VIOLATION)
def reserved_bits_short(client):
    send_packet(client, b"\x01", reserved_bits=3)


def in_handshake(rule, what, expected, name, payload, reserved_bits=0):
    """A case that is a packet of the handshake, before the client's own."""
    def act(client):
        pass
    act.__name__ = name
    connection_error(rule, what, expected, wait=False, in_handshake=(payload, reserved_bits))(act)


def crypto(message):
    return b"\x06\0" + NUMBER(len(message)) + message


in_handshake("9000-17.2", "reserved bits of a Handshake packet", VIOLATION, "reserved_bits_handshake", b"\x01", 3)
in_handshake("9000-17.2.4", "PATH_CHALLENGE in a Handshake packet", VIOLATION, "path_challenge_in_handshake", b"\x1a" + bytes(8))
in_handshake("9000-12.5", "STREAM in a Handshake packet", VIOLATION, "stream_in_handshake", stream_frame(0, 0, b"x"))
in_handshake("9000-12.4", "a Handshake packet without frames", VIOLATION, "no_frames_in_handshake", b"")
in_handshake("9001-6", "KeyUpdate of TLS in the handshake", UNEXPECTED_MESSAGE, "key_update_in_handshake", crypto(KEY_UPDATE))
in_handshake("9001-8.3", "EndOfEarlyData of TLS", UNEXPECTED_MESSAGE, "end_of_early_data", crypto(END_OF_EARLY_DATA))


def parameters(rule, what, name, change, expected=PARAMETER):
    """A case that is a change of the transport parameters."""
    def act(client):
        pass
    act.__name__ = name
    connection_error(rule, what, expected, wait=False, parameters=change)(act)


def added(number, value):
    return lambda found: [pair for pair in found if pair[0] != number] + [(number, value)]


parameters("9000-7.3", "no initial_source_connection_id", "no_initial_source", lambda found: [p for p in found if p[0] != 0x0F])
parameters("9000-7.3", "another initial_source_connection_id", "other_initial_source", added(0x0F, bytes(8)),
           PARAMETER + VIOLATION)
parameters("9000-18.2", "original_destination_connection_id of a client", "original_destination", added(0x00, bytes(8)))
parameters("9000-18.2", "stateless_reset_token of a client", "reset_token", added(0x02, bytes(16)))
parameters("9000-18.2", "preferred_address of a client", "preferred_address", added(0x0D, bytes(24) + b"\x08" + bytes(8) + bytes(16)))
parameters("9000-18.2", "retry_source_connection_id of a client", "retry_source", added(0x10, bytes(8)))
parameters("9000-18.2", "max_udp_payload_size of 1199", "max_udp_payload_size", added(0x03, NUMBER(1199)))
parameters("9000-18.2", "ack_delay_exponent of 21", "ack_delay_exponent", added(0x0A, NUMBER(21)))
parameters("9000-18.2", "max_ack_delay of 2^14", "max_ack_delay", added(0x0B, NUMBER(1 << 14)))
parameters("9000-18.2", "active_connection_id_limit of 1", "active_connection_id_limit", added(0x0E, NUMBER(1)))
parameters("9000-18.2", "initial_max_streams_bidi beyond 2^60", "initial_max_streams", added(0x08, TOO_MANY_STREAMS))
parameters("9000-7.4", "a transport parameter twice", "parameter_twice", lambda found: found + [found[0]])
parameters("9000-18", "a transport parameter that ends within its number", "truncated_parameter", added(0x04, b"\x80"))


@connection_error("9001-8.2", "no transport parameters", MISSING_EXTENSION, wait=False, extension=False)
def no_parameters(client):
    pass


async def other_protocol(site):
    async with connect(site.origin, site.ca, wait=False, alpn_protocols=["spdy/3"]) as client:
        client.transmit()
        closed = await in_time(client.closed, NOTICE_SECS)
        found = (closed.of_application, closed.code)
        check(found in NO_APPLICATION_PROTOCOL, lambda: shown(*found))
        return f"alert {closed.code - QuicErrorCode.CRYPTO_ERROR}"


table.case("9001-8.1", "no protocol that the server speaks")(other_protocol)


async def crypto_in_early_data(site):
    """Only where the server takes early data."""
    tickets = []
    async with connect(site.origin, site.ca, tickets=tickets) as client:
        while not tickets:
            await in_time(client.get("/a.txt"))
    if not tickets[-1].max_early_data_size:
        return "the server takes no early data"
    made = connect(
        site.origin, site.ca, wait=False, session_ticket=tickets[-1],
        connection=lambda **rest: Raw(in_early_data=b"\x06\0\x01x", **rest),
    )
    async with made as client:
        client.transmit()
        closed = await in_time(client.closed, NOTICE_SECS)
        found = (closed.of_application, closed.code)
        check(found in VIOLATION + UNEXPECTED_MESSAGE, lambda: f"{shown(*found)} {closed.reason!r}")
        return shown(*found)


table.case("9001-8.3, 9000-12.5", "CRYPTO in a 0-RTT packet")(crypto_in_early_data)
