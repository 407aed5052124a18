"""An application process that takes many requests at a time, and does with each what its path says."""

import os
import select
import signal
import socket
import struct
import time

HEADER = struct.Struct("<IBBHII")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
channel = socket.socket(fileno=int(os.environ.pop("MAITRED_CHANNEL")))
passed = []
kept = {}
held = {}
detached = []
answers_pings = True
trailers = (0, b"none")


def send(kind, payload=b"", connection=0, request=0, flags=0):
    channel.sendall(HEADER.pack(len(payload), kind, flags, 0, connection, request) + payload)


def done(connection, request, status, flags=0):
    send(66, struct.pack("<HHIQ", status, 0, 100, 0), connection, request, flags)


def answer(connection, request, body):
    os.write(kept[connection], OK % (len(body), body))
    done(connection, request, 200, 1)


def write(connection, data):
    try:
        os.write(kept[connection], data)
    except OSError:
        # The server has ended the response; it says so by CANCEL, too.
        pass


def read(count):
    data = b""
    while len(data) < count:
        piece, descriptors, _, _ = socket.recv_fds(channel, count - len(data), 253)
        if not piece:
            raise SystemExit
        passed.extend(descriptors)
        data += piece
    return data


def hint(size=0):
    start = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX: "
    return start + b"x" * max(0, size - len(start) - 4) + b"\r\n\r\n"


def act(path, meta, connection, request):
    name, *rest = path.strip("/").split("/")
    if name == "meta":
        answer(connection, request, meta)
    elif name == "trailers":
        number, lines = trailers
        answer(connection, request, lines if number == request else b"none")
    elif name == "hints":
        count, size = map(int, rest)
        answer_bytes = hint(size) * count + OK % (2, b"ok")
        os.set_blocking(kept[connection], True)
        os.write(kept[connection], answer_bytes)
        os.set_blocking(kept[connection], False)
        done(connection, request, 200, 1)
    elif name == "continue":
        os.write(kept[connection], b"HTTP/1.1 100 Continue\r\n\r\n" + OK % (2, b"ok"))
        done(connection, request, 200, 1)
    elif name == "hints-die":
        os.write(kept[connection], hint())
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "alone":
        others = [where for where, _ in held.values() if where == connection]
        answer(connection, request, b"shares its number" if others else b"alone")
    elif name == "pid":
        answer(connection, request, b"%d" % os.getpid())
    elif name == "stream":
        os.write(kept[connection], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        held[request] = (connection, path)
    elif name == "ticking":
        os.write(kept[connection], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        held[request] = (connection, path)
    elif name == "detach":
        relay = kept.pop(connection)
        os.write(relay, b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        send(69, struct.pack("<HH", 101, 0), connection, request)
        detached.append(relay)
    elif name in ("tick", "finish"):
        # All streams go on by one piece, or end.
        for other, (where, what) in list(held.items()):
            if what == "/stream" and name == "tick":
                write(where, b"4\r\ntick\r\n")
            elif what == "/stream":
                write(where, b"0\r\n\r\n")
                del held[other]
                done(where, other, 200, 1)
        answer(connection, request, b"ok")
    else:
        if name.startswith("begun"):
            os.write(kept[connection], b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        held[request] = (connection, path)


def cancel(connection, request):
    path = held.get(request, (0, ""))[1]
    if path in ("/silent", "/begun", "/stream", "/ticking"):
        del held[request]
        done(connection, request, 0 if path == "/silent" else 200)
    elif path == "/late":
        del held[request]
        answer(connection, request, b"late")


def frame():
    global answers_pings, trailers
    length, kind, flags, descriptors, connection, request = HEADER.unpack(read(HEADER.size))
    payload = read(length)
    if kind == 7:
        # Nothing but its REQUEST may follow.
        _, behind, _, _, where, number = HEADER.unpack(channel.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_WAITALL))
        assert (behind, where, number) == (1, connection, request) and flags == 0x80
        trailers = (request, payload)
    elif kind == 1:
        body = flags >> 3 & 1
        if descriptors > body:
            kept[connection] = passed.pop(0)
        if body:
            os.close(passed.pop(0))
        meta_length, head_length, _ = struct.unpack_from("<III", payload)
        meta = payload[12 : 12 + meta_length]
        path = payload[12 + meta_length : 12 + meta_length + head_length].split(b" ")[1].decode()
        answers_pings &= path != "/mute"
        act(path, meta, connection, request)
    elif kind == 3:
        cancel(connection, request)
    elif kind == 5:
        raise SystemExit
    elif kind == 4 and answers_pings:
        send(68, request=request)


def until_cut():
    return {kept[where]: request for request, (where, path) in held.items() if path.endswith("until-cut")}


send(65, struct.pack("<HHI", 1, 1, int(os.environ.get("CAPACITY", "100"))) + b"tests")
next_tick = 0
while True:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    cut = until_cut()
    for descriptor in cut:
        poll.register(descriptor, 0)
    for descriptor in detached:
        poll.register(descriptor, select.POLLIN)
    ticking = [(request, where) for request, (where, path) in held.items() if path == "/ticking"]
    now = time.monotonic()
    if not ticking:
        next_tick = now + 0.1
    ready = poll.poll(max(0, next_tick - now) * 1000 if ticking else None)
    due = time.monotonic() >= next_tick
    # Other requests, however many, do not keep a stream from going on.
    next_tick += 0.1 if due else 0
    for request, where in ticking if due else ():
        try:
            os.write(kept[where], b"4\r\ntick\r\n")
        except OSError:
            del held[request]
            done(where, request, 200)
    for descriptor, events in ready:
        if descriptor == channel.fileno():
            frame()
        elif descriptor in detached:
            data = os.read(descriptor, 1000)
            if not data:
                detached.remove(descriptor)
                os.close(descriptor)
            else:
                os.write(descriptor, data)
        elif events & (select.POLLHUP | select.POLLERR):
            request = cut[descriptor]
            connection, path = held.pop(request)
            # Too late: the server has answered, or aborted, in its stead.
            write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
            done(connection, request, 200 if path.startswith("/begun") else 0)
