#!/usr/bin/env python3
"""A UDP proxy that delays: delay.py TO_PORT MILLISECONDS_EACH_WAY; prints its port. For one server on loopback and any number of
clients, each with a socket of its own towards the server."""

import collections
import select
import socket
import sys
import time

to, delay = ("127.0.0.1", int(sys.argv[1])), float(sys.argv[2]) / 1e3
front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
front.bind(("127.0.0.1", 0))
print(front.getsockname()[1], flush=True)
poll = select.epoll()
sockets = {front.fileno(): (front, None)}
behind = {}
waiting = collections.deque()


def watch(sock):
    sock.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, 8 << 20)
    poll.register(sock, select.EPOLLIN)


watch(front)
while True:
    wait = waiting[0][0] - time.monotonic() if waiting else 1
    for fd, _ in poll.poll(max(wait, 0)):
        sock, client = sockets[fd]
        due = time.monotonic() + delay
        try:
            while True:
                data, source = sock.recvfrom(2048)
                if client is not None:
                    waiting.append((due, front, data, client))
                    continue
                if source not in behind:
                    behind[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    behind[source].connect(to)
                    sockets[behind[source].fileno()] = (behind[source], source)
                    watch(behind[source])
                waiting.append((due, behind[source], data, None))
        except BlockingIOError:
            pass
    now = time.monotonic()
    while waiting and waiting[0][0] <= now:
        _, sock, data, client = waiting.popleft()
        try:
            sock.send(data) if client is None else sock.sendto(data, client)
        except OSError:
            pass
