"""An application process that does what the path of each request says, most of which it must not."""

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import sys

HEADER = struct.Struct("<IBBHII")
CAPACITY = int(os.environ.get("CAPACITY", "1"))
channel = socket.socket(fileno=int(os.environ.pop("MAITRED_CHANNEL")))
descriptors = []
kept = {}
unfinished = []
# Several processes may stand at it (fifo(7)).
with contextlib.suppress(FileExistsError):
    os.mkfifo("gate")
gate = os.open("gate", os.O_RDONLY | os.O_NONBLOCK)


def send(kind, payload=b"", flags=0, connection=0, request=0):
    channel.sendall(HEADER.pack(len(payload), kind, flags, 0, connection, request) + payload)


def hello():
    send(65, struct.pack("<HHI", 1, 1, CAPACITY) + b"fake")


def done(connection, request, status=200, flags=1, body_bytes=3):
    send(66, struct.pack("<HHIQ", status, 0, 100, body_bytes), flags, connection, request)


def read(count):
    data = b""
    while len(data) < count:
        piece, passed, _, _ = socket.recv_fds(channel, count - len(data), 253, socket.MSG_CMSG_CLOEXEC)
        if not piece:
            sys.exit(0)
        descriptors.extend(passed)
        data += piece
    return data


def write(connection, data):
    os.set_blocking(kept[connection], True)
    try:
        while data:
            data = data[os.write(kept[connection], data) :]
    except OSError:
        pass
    finally:
        os.set_blocking(kept[connection], False)


def answer(connection, request, text=b"ok\n"):
    write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    done(connection, request, body_bytes=len(text))


def act(path, connection, request, body):
    if path == "/app/ok":
        answer(connection, request)
    elif path == "/app/length":
        answer(connection, request, b"%d\n" % len(body))
    elif path == "/app/pid":
        answer(connection, request, b"%d\n" % os.getpid())
    elif path == "/app/hold":
        # Until the test has written to the gate. What it has written is never read, so that the gate stays open.
        select.select([gate], [], [])
        answer(connection, request)
    elif path == "/app/flood":
        # As much as the client takes, which is not all.
        unfinished.append((connection, request))
        data = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + bytes(1 << 20)
        os.set_blocking(kept[connection], False)
        try:
            while data := data[os.write(kept[connection], data) :] or bytes(1 << 20):
                pass
        except BlockingIOError:
            pass
    elif path == "/app/afterthought":
        late = unfinished.pop()
        send(67, b"of another", 0, *late)
        done(*late, flags=0)
        answer(connection, request)
    elif path == "/app/other-connection":
        done(connection + 1, request)
    elif path == "/app/other-request":
        done(connection, request + 1)
    elif path == "/app/twice":
        answer(connection, request)
        done(connection, request)
    elif path == "/app/hello-again":
        hello()
    elif path == "/app/garbage":
        channel.sendall(bytes(range(256)) * 16)
    elif path == "/app/huge":
        channel.sendall(HEADER.pack(1 << 30, 68, 0, 0, 0, 0))
    elif path == "/app/endless":
        channel.sendall(HEADER.pack(65537, 0xF0, 128, 0, 0, 0) + bytes(65537))
    elif path == "/app/close":
        channel.close()
        signal.pause()
    elif path == "/app/exit":
        os._exit(3)
    elif path == "/app/half":
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        os._exit(3)
    elif path == "/app/stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif path == "/app/never":
        pass
    elif path == "/app/nothing":
        done(connection, request, status=0, flags=0, body_bytes=0)


def main():
    # As the protocol has it: what was received is finished, and the end of the channel is the end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if os.environ.get("MUTE"):
        signal.pause()
    hello()
    while True:
        length, kind, _, passes, connection, request = HEADER.unpack(read(HEADER.size))
        payload = read(length)
        if kind == 2 and connection in kept:
            os.close(kept.pop(connection))
        if kind == 5:
            sys.exit(0)
        if kind != 1:
            continue
        if passes:
            if connection in kept:
                os.close(kept[connection])
            kept[connection] = descriptors.pop(0)
        meta, head, body = struct.unpack("<III", payload[:12])
        path = payload[12 + meta : 12 + meta + head].split(b" ", 2)[1].decode()
        act(path, connection, request, payload[12 + meta + head :])


main()
