"""An application process of many requests at a time, which keeps its listeners: `/events` is a response without an end,
`/say?TEXT` goes to all of these, `/finish` ends them. `/socket` takes the connection over, `/length` says how long the body
was. `/stubborn` is not ended by CANCEL, but by `/release`."""

import os
import socket
import struct
import threading

HEADER = struct.Struct("<IBBHII")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
channel = socket.socket(fileno=int(os.environ.pop("MAITRED_CHANNEL")))
passed, kept, streams, stubborn = [], {}, {}, {}
cancelled = 0


def send(kind, payload=b"", connection=0, request=0):
    channel.sendall(HEADER.pack(len(payload), kind, 0, 0, connection, request) + payload)


def read(count):
    data = b""
    while len(data) < count:
        piece, descriptors, _, _ = socket.recv_fds(channel, count - len(data), 253, socket.MSG_CMSG_CLOEXEC)
        if not piece:
            os._exit(0)
        passed.extend(descriptors)
        data += piece
    return data


def write(connection, data):
    try:
        while data:
            data = data[os.write(kept[connection], data):]
    except OSError:
        pass


def done(connection, request, length, outcome=1):
    channel.sendall(HEADER.pack(16, 66, outcome, 0, connection, request) + struct.pack("<HHIQ", 200, 0, 100, length))


def answer(connection, request, text):
    write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    done(connection, request, len(text))


def event(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


def echo(peer):
    while piece := peer.recv(65536):
        peer.sendall(piece)


def begin(connection, request, target, length):
    path, _, query = target.partition(b"?")
    name = path.rsplit(b"/", 1)[-1]
    if name == b"events":
        streams[request] = connection
        write(connection, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + event(b"%d;" % os.getpid()))
    elif name == b"stubborn":
        stubborn[request] = connection
        write(connection, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    elif name == b"release":
        answer(connection, request, b"%d" % len(stubborn))
        for number, other in stubborn.items():
            done(other, number, 0, 0)
        stubborn.clear()
    elif name == b"socket":
        write(connection, SWITCH)
        peer = socket.socket(fileno=kept.pop(connection))
        peer.setblocking(True)
        threading.Thread(target=echo, args=(peer,), daemon=True).start()
        send(69, struct.pack("<HH", 101, 0), connection, request)
    elif name == b"say":
        for other in streams.values():
            write(other, event(query))
        answer(connection, request, b"%d" % len(streams))
    elif name == b"finish":
        for number, other in list(streams.items()):
            write(other, b"0\r\n\r\n")
            done(other, number, 0)
        streams.clear()
        answer(connection, request, b"finished")
    elif name == b"tail":
        text = b"x" * 300_000
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text))
        for at in range(0, len(text), 60_000):
            send(67, text[at:at + 60_000], connection, request)
        done(connection, request, len(text))
    elif name == b"cancelled":
        answer(connection, request, b"%d" % cancelled)
    elif name == b"kept":
        answer(connection, request, b"%d" % len(kept))
    elif name == b"length":
        answer(connection, request, b"%d" % length)
    else:
        answer(connection, request, b"%d" % os.getpid())


send(65, struct.pack("<HHI", 1, 1, int(os.environ.get("CAPACITY", 16))) + b"streams")
while True:
    length, kind, flags, descriptors, connection, request = HEADER.unpack(read(HEADER.size))
    payload = read(length)
    if kind == 1:
        mine = [passed.pop(0) for _ in range(descriptors)]
        body = mine.pop() if flags & 8 else None
        if mine:
            kept[connection] = mine[0]
        meta, head, inline = struct.unpack_from("<III", payload)
        target = payload[12 + meta:].split(b" ", 2)[1]
        if body is not None:
            inline = os.fstat(body).st_size
            os.close(body)
        begin(connection, request, target, inline)
    elif kind == 2:
        os.close(kept.pop(connection))
    elif kind == 3 and request in streams:
        cancelled += 1
        done(streams.pop(request), request, 0, 0)
    elif kind == 3 and request in stubborn:
        cancelled += 1
    elif kind == 4:
        send(68, request=request)
    elif kind == 5:
        os._exit(0)
