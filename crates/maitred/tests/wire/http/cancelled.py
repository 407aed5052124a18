"""An application process that gives its requests up when their clients have gone; the path says at which point."""

import os
import socket
import struct

HEADER = struct.Struct("<IBBHII")
channel = socket.socket(fileno=int(os.environ.pop("MAITRED_CHANNEL")))
passed = []
kept = {}


def send(kind, payload=b"", connection=0, request=0):
    channel.sendall(HEADER.pack(len(payload), kind, 0, 0, connection, request) + payload)


def read(count):
    data = b""
    while len(data) < count:
        piece, descriptors, _, _ = socket.recv_fds(channel, count - len(data), 253)
        if not piece:
            raise SystemExit
        passed.extend(descriptors)
        data += piece
    return data


send(65, struct.pack("<HHI", 1, 1, 10) + b"gives up")
statuses = {}
while True:
    length, kind, _, descriptors, connection, request = HEADER.unpack(read(HEADER.size))
    payload = read(length)
    if kind == 1:
        if descriptors:
            kept[connection] = passed.pop(0)
        statuses[request] = 0
        if b"/begun" in payload:
            os.write(kept[connection], b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
            statuses[request] = 200
    elif kind == 4:
        send(68, request=request)
    elif kind == 3:
        send(66, struct.pack("<HHIQ", statuses.pop(request), 0, 100, 0), connection, request)
