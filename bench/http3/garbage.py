#!/usr/bin/env python3
"""A million datagrams that mean nothing: what each costs Maitred in CPU time, and whether memory is left of them.

Usage: garbage.py BINARIES CHROOT > garbage.json

BINARIES and CHROOT are those of measure.py; nginx is not asked."""

import argparse
import json
import os
import shutil
import socket
import sys
import tempfile

from measure import Server, prepare

COUNT = 1_000_000
# The generator's, as in measure.py.
CPU = 1
KINDS = {
    # A short header with an id that was never given; a long one of an unknown version; an Initial whose content is noise.
    "short header": lambda noise: b"\x40" + noise[:199],
    "unknown version": lambda noise: b"\xc0\x0a\x0a\x0a\x0a\x08" + noise[:1194],
    "initial of noise": lambda noise: b"\xc0\x00\x00\x00\x01\x08" + noise[:8] + b"\x08" + noise[8:16] + b"\x00\x44\x9e" + noise[16:1198],
}


def main():
    parser = argparse.ArgumentParser()
    for name in ("binaries", "chroot"):
        parser.add_argument(name)
    settings = parser.parse_args()
    settings.directory = tempfile.mkdtemp(prefix="garbage")
    prepare(settings)
    os.sched_setaffinity(0, {CPU})
    server = Server("maitred", ("maitred", {"PORT": 18440, "HTTP3": "true"}), settings)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", server.port))
    sender.settimeout(5)
    results = {}
    for name, make in KINDS.items():
        for _ in range(10_000):
            sender.send(make(os.urandom(1200)))
        before, memory = server.cpu(), server.private()
        pool = [make(os.urandom(1200)) for _ in range(10_000)]
        received = 0
        for number in range(COUNT):
            sender.send(pool[number % len(pool)])
            if number % 64 == 0:
                received = settle(sender, received)
        after = server.cpu()
        results[name] = {"microseconds": (after - before) / COUNT, "memory_bytes": server.private() - memory,
                         "answers": received}
        print(f"{name}: {results[name]}", file=sys.stderr)
    server.stop()
    json.dump(results, sys.stdout, indent=1)
    print()
    shutil.rmtree(settings.directory)


def settle(sender, received):
    """Takes what was answered, so that the sender goes no faster than it can be looked at."""
    sender.setblocking(False)
    try:
        while True:
            sender.recv(2048)
            received += 1
    except BlockingIOError:
        return received
    finally:
        sender.setblocking(True)


main()
