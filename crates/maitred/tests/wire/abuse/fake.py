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
TAKES = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


def send(kind, payload=b"", flags=0, connection=0, request=0):
    channel.sendall(HEADER.pack(len(payload), kind, flags, 0, connection, request) + payload)


def pass_on(descriptors, kind, payload=b"", flags=0, connection=0, request=0):
    header = HEADER.pack(len(payload), kind, flags, len(descriptors), connection, request)
    socket.send_fds(channel, [header + payload], descriptors)


def tail_file(descriptor, connection, request, length=5):
    pass_on([descriptor], 67, struct.pack("<QQ", 0, length), 1, connection, request)


def lingering(port):
    """A connection that has much to send to the listener on this port, and takes nothing. Its last close waits."""
    sender = socket.create_connection(("127.0.0.1", port))
    fill(sender)
    return sender


def fill(sender):
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 50))
    sender.setblocking(False)
    try:
        while sender.send(bytes(1 << 20)):
            pass
    except BlockingIOError:
        pass


def pass_last(sender, frame):
    """Passes it with the first bytes of a frame. What receives the others has the only copy."""
    socket.send_fds(channel, [frame[:8]], [sender.fileno()])
    sender.close()
    channel.sendall(frame[8:])


def linger(how, port, connection, request):
    if how == "skipped":
        pass_last(lingering(port), HEADER.pack(0, 0xF0, 128, 1, 0, 0))
        answer(connection, request)
    elif how == "file":
        pass_last(lingering(port), HEADER.pack(16, 67, 1, 1, connection, request) + struct.pack("<QQ", 0, 5))
    elif how == "unclaimed":
        # It arrives with a frame that takes none; then the server gives this process up.
        pass_last(lingering(port), HEADER.pack(1 << 30, 68, 0, 0, 0, 0))
    elif how == "unread":
        # Behind what ends it, so that the server does not read it.
        sender = lingering(port)
        channel.sendall(HEADER.pack(1 << 30, 68, 0, 0, 0, 0))
        socket.send_fds(channel, [HEADER.pack(0, 0xF0, 128, 1, 0, 0)], [sender.fileno()])
    elif how == "orphan":
        # When the test has seen to it that there is no reader.
        with open("at-the-gate", "w"):
            pass
        select.select([gate], [], [])
        sender = lingering(port)
        socket.send_fds(channel, [HEADER.pack(0, 0xF0, 128, 1, 0, 0)], [sender.fileno()])
        sender.close()
        open("passed", "x").close()
    elif how == "response":
        sender = lingering(port)
        with socket.socket(fileno=os.dup(kept[connection])) as response:
            socket.send_fds(response, [TAKES + b"file\n"], [sender.fileno()])
        sender.close()
        done(connection, request, body_bytes=5)
    elif how == "client":
        with socket.socket(fileno=kept.pop(connection)) as client:
            fill(client)
        done(connection, request, flags=0)


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
    elif path.startswith("/app/linger/"):
        _, _, _, how, port = path.split("/")
        linger(how, int(port), connection, request)
    elif path == "/app/fifo":
        os.mkfifo("fifo")
        fifo = os.open("fifo", os.O_RDWR)
        tail_file(fifo, connection, request)
        os.close(fifo)
    elif path.startswith("/app/files/"):
        count = int(path.rpartition("/")[2])
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (5 * count))
        with open("file.txt", "rb") as file:
            for _ in range(count):
                tail_file(file.fileno(), connection, request)
        done(connection, request, body_bytes=5 * count)
    elif path == "/app/blocks":
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
        os.set_blocking(kept[connection], True)
        done(connection, request)
    elif path.startswith("/app/blocks/"):
        # What its client does not take yet is left to Maitred.
        length = int(path.rpartition("/")[2])
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
        os.set_blocking(kept[connection], True)
        file = os.memfd_create("tail")
        os.truncate(file, length)
        tail_file(file, connection, request, length)
        os.close(file)
        done(connection, request, body_bytes=length)
    elif path.startswith("/app/kept/"):
        # What a client may not take yet, in a file of some kind.
        _, _, _, where, length = path.split("/")
        length = int(length)
        if where == "memory":
            file = os.memfd_create("kept")
        else:
            name = f"{where}-{request}"
            file = os.open(name, os.O_RDWR | os.O_CREAT)
            if where == "disk":
                os.unlink(name)
        os.truncate(file, length)
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
        tail_file(file, connection, request, length)
        os.close(file)
        done(connection, request, body_bytes=length)
    elif path == "/app/beyond":
        write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
        with open("file.txt", "rb") as file:
            tail_file(file.fileno(), connection, request, 500)
        done(connection, request, body_bytes=500)
    elif path.startswith("/app/proc/"):
        # A file system that does not promise never to wait: what has framing of its own, and what has not.
        with open("/proc/version", "rb") as file:
            text = file.read()
            if path == "/app/proc/chunked":
                write(connection, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(text))
                tail_file(file.fileno(), connection, request, len(text))
                send(67, b"\r\n0\r\n\r\n", 0, connection, request)
            else:
                length = len(text) + path.endswith("short")
                write(connection, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                tail_file(file.fileno(), connection, request, length)
        done(connection, request, body_bytes=len(text))
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
