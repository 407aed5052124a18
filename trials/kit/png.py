"""A picture, as users of applications send them."""

import struct
import zlib


def png(width=320, height=240):
    """A PNG of that many pixels, each of another colour than the ones beside it."""
    rows = b"".join(b"\0" + bytes(v % 256 for x in range(width) for v in (x, y, x * y)) for y in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
