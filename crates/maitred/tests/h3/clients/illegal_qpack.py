"""Field sections and instructions of QPACK (RFC 9204) that refer to nothing."""

from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import ErrorCode, FrameType, StreamType

from illegal import application, connection_error
from raw import integer

DECOMPRESSION = application(ErrorCode.QPACK_DECOMPRESSION_FAILED)
ENCODER = application(ErrorCode.QPACK_ENCODER_STREAM_ERROR)
DECODER = application(ErrorCode.QPACK_DECODER_STREAM_ERROR)
CRITICAL = application(ErrorCode.H3_CLOSED_CRITICAL_STREAM)
CREATION = application(ErrorCode.H3_STREAM_CREATION_ERROR)

# Required Insert Count of 0 and Base of 0.
PREFIX = b"\0\0"
# :method GET, :scheme https and :path / of the static table.
PSEUDO = b"\xd1\xd7\xc1"


def section(client, data):
    stream, _ = client.new_stream()
    client.send_frame(stream, FrameType.HEADERS, data, end=True)


def to_encoder(client, data):
    client.send_raw(client.encoder_stream(), data)


def to_decoder(client, data):
    client.send_raw(client.decoder_stream(), data)


@connection_error("9204-3.1", "a field of the static table that it does not have", DECOMPRESSION)
def static_index(client):
    section(client, PREFIX + PSEUDO + integer(0xC0, 6, 99))


@connection_error("9204-3.1", "a name of the static table that it does not have", DECOMPRESSION)
def static_name_index(client):
    section(client, PREFIX + PSEUDO + integer(0x50, 4, 5000) + b"\x01a")


@connection_error("9204-2.2.3", "a field of the dynamic table, in which nothing is", DECOMPRESSION)
def dynamic_index(client):
    section(client, PREFIX + PSEUDO + integer(0x80, 6, 0))


@connection_error("9204-4.5.3", "a field of the dynamic table after Base", DECOMPRESSION)
def post_base_index(client):
    section(client, PREFIX + PSEUDO + integer(0x10, 4, 0))


@connection_error("9204-4.5.1.1", "a Required Insert Count that is larger than the table allows", DECOMPRESSION)
def required_insert_count(client):
    section(client, integer(0, 8, 100_000) + b"\0" + PSEUDO)


@connection_error("9204-4.5.1.2", "a Base below zero", DECOMPRESSION)
def negative_base(client):
    section(client, b"\0" + integer(0x80, 7, 5) + PSEUDO)


@connection_error("9204-4.5", "a section that ends within a string", DECOMPRESSION)
def truncated_string(client):
    section(client, PREFIX + PSEUDO + b"\x23abc" + integer(0, 7, 100) + b"short")


@connection_error("9204-4.5", "a section without its prefix", DECOMPRESSION)
def no_prefix(client):
    section(client, b"\0")


@connection_error("9204-4.1.1", "an integer of more than 62 bits", DECOMPRESSION)
def long_integer(client):
    section(client, PREFIX + PSEUDO + b"\xff" + b"\xff" * 12 + b"\x01")


@connection_error("7541-5.2", "Huffman padding of more than seven bits", DECOMPRESSION)
def huffman_padding(client):
    # A name of one letter, and a value of sixteen one bits: the second byte is all padding.
    section(client, PREFIX + PSEUDO + b"\x21a" + b"\x82\x1f\xff")


@connection_error("7541-5.2", "Huffman padding of zeros", DECOMPRESSION)
def huffman_zero_padding(client):
    section(client, PREFIX + PSEUDO + b"\x21a" + b"\x81\x18")


@connection_error("9204-4.3.1", "a capacity above the limit", ENCODER)
def capacity_above_limit(client):
    to_encoder(client, integer(0x20, 5, 1 << 24))


@connection_error("9204-4.3.2", "an insertion with a name of the static table that it does not have", ENCODER)
def insert_static_name(client):
    to_encoder(client, integer(0xC0, 6, 99) + b"\x01a")


@connection_error("9204-4.3.2", "an insertion with a name of the dynamic table, in which nothing is", ENCODER)
def insert_dynamic_name(client):
    to_encoder(client, integer(0x80, 6, 0) + b"\x01a")


@connection_error("9204-4.3.4", "a duplicate of nothing", ENCODER)
def duplicate_nothing(client):
    to_encoder(client, integer(0, 5, 0))


@connection_error("9204-3.2.2", "an insertion that is larger than the table", ENCODER)
def insertion_too_large(client):
    to_encoder(client, integer(0x40, 5, 1) + b"a" + integer(0, 7, 100_000) + b"v" * 100_000)


@connection_error("9204-4.4.1", "an acknowledgment of a section that was not sent", DECODER)
def acknowledgment_of_nothing(client):
    to_decoder(client, integer(0x80, 7, 4))


@connection_error("9204-4.4.3", "an Insert Count Increment of 0", DECODER)
def increment_of_0(client):
    to_decoder(client, integer(0, 6, 0))


@connection_error("9204-4.4.3", "an Insert Count Increment for insertions that were not sent", DECODER)
def increment_too_large(client):
    to_decoder(client, integer(0, 6, 1000))


@connection_error("9204-4.2", "the encoder stream ends", CRITICAL)
def encoder_stream_ends(client):
    client.send_raw(client.encoder_stream(), b"", end=True)


@connection_error("9204-4.2", "the decoder stream ends", CRITICAL)
def decoder_stream_ends(client):
    client.send_raw(client.decoder_stream(), b"", end=True)


@connection_error("9204-4.2", "a second encoder stream", CREATION)
def second_encoder_stream(client):
    client.send_raw(client.uni_stream(), encode_uint_var(StreamType.QPACK_ENCODER))


@connection_error("9204-4.2", "a second decoder stream", CREATION)
def second_decoder_stream(client):
    client.send_raw(client.uni_stream(), encode_uint_var(StreamType.QPACK_DECODER))
