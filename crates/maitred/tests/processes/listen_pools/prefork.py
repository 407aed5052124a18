"""The plainest server there is: one connection at a time, from the sockets that it was given (sd_listen_fds(3)).

Answers with its process id and bucket. `/wait` reports to GATE first, and goes on when that says so; `/slow` takes 50 ms.
"""

import os
import select
import signal
import socket
import time

assert int(os.environ["LISTEN_PID"]) == os.getpid(), "the sockets are for another process"
sockets = [socket.socket(fileno=3 + number) for number in range(int(os.environ["LISTEN_FDS"]))]
assert os.environ["LISTEN_FDNAMES"].split(":") == [os.environ["MAITRED_POOL"]] * len(sockets)
leaving = False


def leave(*_):
    global leaving
    leaving = True


def wait():
    host, port = os.environ["GATE"].rsplit(":", 1)
    with socket.create_connection((host, int(port))) as gate:
        gate.sendall(b"%d\n" % os.getpid())
        gate.recv(1)


def serve(client):
    request = b""
    while b"\r\n\r\n" not in request:
        piece = client.recv(65536)
        if not piece:
            return
        request += piece
    path = request.split(b" ")[1].decode()
    if path == "/wait":
        wait()
    elif path == "/slow":
        time.sleep(0.05)
    body = b"%d %s %s %s\n" % (
        os.getpid(),
        os.environ["MAITRED_BUCKET"].encode(),
        os.environ.get("VERSION", "1").encode(),
        b",".join(b"%d" % cpu for cpu in sorted(os.sched_getaffinity(0))),
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    client.sendall(head + body)


signal.signal(signal.SIGTERM, leave)
for one in sockets:
    one.setblocking(False)
# A signal between the look at `leaving` and the wait is not lost: it makes this readable.
reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
signal.set_wakeup_fd(writer)
while not leaving:
    for one in select.select([*sockets, reader], [], [])[0]:
        if one == reader or leaving:
            continue
        try:
            client, _ = one.accept()
        except BlockingIOError:
            continue
        with client:
            try:
                client.settimeout(60)
                serve(client)
            except ConnectionError:
                pass
