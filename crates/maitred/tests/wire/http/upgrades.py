"""An application process that takes connections over, in ways that adapters do not: the path says how."""

import os
import signal
import socket
import struct
import sys
import threading

HEADER = struct.Struct("<IBBHII")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: upgrade\r\n\r\n"
channel = socket.socket(fileno=int(os.environ.pop("MAITRED_CHANNEL")))
descriptors, kept, threads = [], {}, []
ending = threading.Event()
heard = "nothing"


def send(kind, payload=b"", flags=0, connection=0, request=0):
    channel.sendall(HEADER.pack(len(payload), kind, flags, 0, connection, request) + payload)


def read(count):
    data = b""
    while len(data) < count:
        piece, passed, _, _ = socket.recv_fds(channel, count - len(data), 253, socket.MSG_CMSG_CLOEXEC)
        if not piece:
            end()
        descriptors.extend(passed)
        data += piece
    return data


def end():
    """The end of the channel: detached connections end in the way of their protocol."""
    ending.set()
    for thread in threads:
        thread.join()
    os._exit(0)


def answer(connection, request, text):
    os.write(kept[connection], b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    send(66, struct.pack("<HHIQ", 200, 0, 100, len(text)), 1, connection, request)


def everything(peer):
    data = b""
    while piece := peer.recv(65536):
        data += piece
    return data


def echo(peer, early):
    peer.sendall(early)
    while piece := peer.recv(65536):
        peer.sendall(piece)
    peer.sendall(b"bye")


def first_half(peer, early):
    """Has said all, and listens."""
    global heard
    peer.sendall(b"that is all")
    peer.shutdown(socket.SHUT_WR)
    heard = "%d bytes" % len(everything(peer))


def close(peer, early):
    """Does not listen to what the client says."""
    peer.sendall(b"x" * 100_000)


def flood(peer, early):
    """Far more than any socket holds."""
    for _ in range(40):
        peer.sendall(bytes(range(250)) * 4000)


def until_the_end(peer, early):
    peer.sendall(b"here")
    ending.wait()
    peer.sendall(b"the end")


ACTS = {"/echo": echo, "/first-half": first_half, "/close": close, "/flood": flood, "/until-the-end": until_the_end}


def take_over(path, protocol, connection, request, early):
    def detach():
        send(69, struct.pack("<HH", 101, 0), 0, connection, request)

    # As net/http's Hijack does it: DETACH comes first.
    late = path.startswith("/late")
    switch = SWITCH % (b"h2c" if path == "/stranger" else protocol)
    before, after = b"" if late else switch, switch if late else b""
    if path == "/other":
        before, after = b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"
    elif path == "/mute":
        before = b""
    os.write(kept[connection], before)
    peer = socket.socket(fileno=kept.pop(connection))
    peer.setblocking(True)
    detach()

    def run():
        with peer:
            try:
                peer.sendall(after)
                ACTS.get(path.removeprefix("/late"), lambda *_: None)(peer, early)
            except OSError:
                pass

    threads.append(threading.Thread(target=run))
    threads[-1].start()


def main():
    signal.signal(signal.SIGTERM, lambda *_: channel.shutdown(socket.SHUT_RD))
    send(65, struct.pack("<HHI", 1, 1, 16) + b"upgrades")
    while True:
        length, kind, flags, passes, connection, request = HEADER.unpack(read(HEADER.size))
        payload = read(length)
        if kind == 2 and connection in kept:
            os.close(kept.pop(connection))
        if kind == 5:
            end()
        if kind != 1:
            continue
        if passes:
            if connection in kept:
                os.close(kept[connection])
            kept[connection] = descriptors.pop(0)
        meta, head, body = struct.unpack("<III", payload[:12])
        lines = payload[12 + meta : 12 + meta + head].split(b"\r\n")
        path = lines[0].split(b" ", 2)[1].decode()
        protocol = b"".join(line[9:] for line in lines if line.startswith(b"upgrade: "))
        early = payload[12 + meta + head :]
        if path == "/heard":
            answer(connection, request, heard.encode())
        elif path == "/die":
            os._exit(1)
        elif flags & 16:
            take_over(path, protocol, connection, request, early)
        else:
            answer(connection, request, b"no upgrade" if not protocol else b"an upgrade that may not be")


main()
