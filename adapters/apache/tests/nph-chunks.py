#!/usr/bin/env python3
"""A program that writes its own response head, and chunks of its own, as its query says."""

import os
import sys

CASES = {
    "plain": b"3\r\none\r\n4\r\n two\r\n0\r\n\r\n",
    "odd": b"0003;a=b\r\none\r\n4 \n two\n000\r\nX-Trailer: 1\r\n\r\n",
    "empty": b"0\r\n\r\n",
    "large": b"%x\r\n%b\r\n0\r\n\r\n" % (300_000, bytes(300_000)),
    "cut": b"3\r\none\r\n",
    "wrong": b"3\r\none two",
}
case = os.environ["QUERY_STRING"]
head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-Own: 1\r\nContent-Type: text/x-none\r\n"
head += b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: own\r\n"
head += b"Trailer: X-Trailer\r\n" if case == "odd" else b""
head += b"Transfer-Encoding: %b\r\n" % (b"gzip, chunked" if case == "gzip" else b"Chunked")
head += b"Content-Length: 3\r\n" if case == "both" else b""
sys.stdout.buffer.write(head + b"\r\n" + CASES.get(case, CASES["plain"]))
