"""aioquic as a client: requests of every kind, and what a connection goes through meanwhile.

    aioquic_client.py [--ca FILE] [--server PID] ORIGIN [CASE...]

PID is the server's, to have it reloaded. ORIGIN is where cargo xtask http3 serves its site (https://localhost:PORT). Exit status: 0 if all was as it has to be.
"""

import argparse
import asyncio
import hashlib
import http.client
import json
import os
import signal
import socket
import ssl
from urllib.parse import urlsplit

from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import ErrorCode, Setting

from h3 import Reset, connect, in_time
from table import Table, check

LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 10_000_000
AT_ONCE = 100
# What every server has to take (maitred takes 32 KiB in all), and what is more than any takes.
COOKIE_BYTES = 7_000
TOO_MANY_FIELDS = 40
# Longer than an idle connection is left as it is before its memory is given back.
DEAF_SECS = 2.5

table = Table()
case = table.case


def large():
    period = bytes((at ^ at >> 8) & 255 for at in range(1 << 16))
    return (period * (LARGE_BYTES // len(period) + 1))[:LARGE_BYTES]


class Site:
    """What the cases are given."""

    def __init__(self, origin, ca, server):
        self.origin, self.ca, self.server = origin, ca, server
        self.large_sum = hashlib.sha256(large()).hexdigest()

    def connect(self, **more):
        return connect(self.origin, self.ca, **more)

    async def is_well(self, client):
        """The connection answers as ever."""
        answer = await client.get("/a.txt")
        check((answer.status, bytes(answer.content)) == (200, b"file a\n"), lambda: (answer.status, bytes(answer.content)))

    def check_large(self, answer):
        check(answer.status == 200 and len(answer.content) == LARGE_BYTES, lambda: (answer.status, len(answer.content)))
        check(hashlib.sha256(answer.content).hexdigest() == self.large_sum, "another content")


@case("9114-4.1", "GET of a file")
async def get(site):
    async with site.connect() as client:
        await site.is_well(client)
        answer = await client.get("/a.txt")
        check(answer.field("content-length") == "7" and answer.field("etag"), answer.fields)


@case("9110-9.3.2", "HEAD: the length of the content, and none of it")
async def head(site):
    async with site.connect() as client:
        answer = await client.request("HEAD", "/large.bin")
        check((answer.status, answer.field("content-length")) == (200, str(LARGE_BYTES)), answer.fields)
        check(not answer.content, "content of HEAD")


@case("9110-15", "answers of the server itself: 404, 405, 410")
async def statuses(site):
    async with site.connect() as client:
        found = [(await client.get(path)).status for path in ("/none", "/gone")]
        found.append((await client.request("POST", "/a.txt", content=b"x" * 100_000)).status)
        check(found == [404, 410, 405], found)
        await site.is_well(client)


@case("9110-13, 14", "a range, and a condition")
async def range_and_condition(site):
    async with site.connect() as client:
        part = await client.get("/large.bin", [("range", "bytes=1000-1999999")])
        check(part.status == 206 and bytes(part.content) == large()[1000:2_000_000], part.fields)
        first = await client.get("/a.txt")
        again = await client.get("/a.txt", [("if-none-match", first.field("etag"))])
        check(again.status == 304 and not again.content, again.fields)


@case("9114-4.1", "a download of 20 MB")
async def download(site):
    async with site.connect() as client:
        site.check_large(await client.get("/large.bin"))


@case("9114-4.1", "an upload of 10 MB")
async def upload(site):
    content = os.urandom(UPLOAD_BYTES)
    async with site.connect() as client:
        answer = await client.request("POST", "/app/upload", [("content-length", str(UPLOAD_BYTES))], content)
        check_upload(answer, content)
        # Without a length, and in two pieces.
        stream, answer = client.new_stream()
        client.http.send_headers(stream, client.head("POST", "/app/upload"))
        client.http.send_data(stream, content[:1000], False)
        client.transmit()
        client.http.send_data(stream, content[1000:3000], True)
        client.transmit()
        check_upload(await in_time(answer.done), content[:3000])


def check_upload(answer, content):
    check(answer.status == 200, lambda: f"status {answer.status}: {bytes(answer.content)[:200]}")
    said = json.loads(answer.content)
    check(said == {"length": len(content), "sha256": hashlib.sha256(content).hexdigest()}, said)


@case("9110-10.1.1", "an upload with Expect: 100-continue")
async def expect_continue(site):
    async with site.connect() as client:
        stream, answer = client.new_stream()
        client.http.send_headers(stream, client.head("POST", "/app/upload", [("expect", "100-continue"), ("content-length", "5")]))
        client.transmit()
        # Sent without waiting: a server need not send 100.
        client.http.send_data(stream, b"12345", True)
        client.transmit()
        check_upload(await in_time(answer.done), b"12345")
        return f"interim {answer.interim}"


@case("9114-4.1", "trailer fields of a request, and of a response")
async def trailers(site):
    async with site.connect() as client:
        answer = await client.request("POST", "/app/upload", content=b"abc", trailers=[("x-sum", "1")])
        check_upload(answer, b"abc")
        answer = await client.get("/app/trailers", [("te", "trailers")])
        check(bytes(answer.content) == b"with trailers\n", bytes(answer.content))
        check(answer.trailers == [("x-sum", "42")], answer.trailers)


@case("9114-4.1", "100 requests at once, files and an application")
async def concurrent(site):
    paths = {"/a.txt": 200, "/0.js": 200, "/none": 404, "/app/fields": 200}
    async with site.connect() as client:
        # Five times as many as that: streams are given back.
        for _ in range(5):
            wanted = [list(paths)[number % len(paths)] for number in range(AT_ONCE)]
            begun = [client.begin("GET", path)[1] for path in wanted]
            answers = await in_time(asyncio.gather(*(answer.done for answer in begun)))
            found = [(path, answer.status) for path, answer in zip(wanted, answers) if answer.status != paths[path]]
            check(not found, found)


@case("9114-4.2", "fields arrive as they were sent, also those of QPACK's dynamic table")
async def fields(site):
    async with site.connect() as client:
        for number in range(50):
            sent = [("x-same", "always the same value"), ("x-number", str(number)), ("cookie", "a=1"), ("cookie", f"b={number}")]
            answer = await client.get("/app/fields", sent)
            check(answer.status == 200, answer.status)
            said = json.loads(answer.content)
            seen = dict(said["fields"])
            check(seen["x-same"] == "always the same value" and seen["x-number"] == str(number), seen)
            # 9114-4.2.1: crumbs are joined.
            check(seen["cookie"] == f"a=1; b={number}", seen)
            check((said["method"], said["path"], said["scheme"]) == ("GET", "/app/fields", "https"), said)
        settings = client.http.received_settings
        return f"table of {settings.get(Setting.QPACK_MAX_TABLE_CAPACITY, 0)} bytes"


@case("9114-4.2.2", "large fields of a request and of a response")
async def large_fields(site):
    async with site.connect() as client:
        answer = await client.get("/app/fields", [("cookie", "c" * COOKIE_BYTES)])
        check(answer.status == 200, answer.status)
        check(dict(json.loads(answer.content)["fields"])["cookie"] == "c" * COOKIE_BYTES, "another cookie")
        answer = await client.get(f"/app/head/{COOKIE_BYTES}")
        check(answer.field("x-long") == "h" * COOKIE_BYTES, answer.status)


@case("9114-4.2.2", "fields larger than the server takes: 431 or a reset, and the connection stays")
async def too_large_fields(site):
    async with site.connect() as client:
        try:
            answer = await client.get("/a.txt", [(f"x-{number}", "l" * COOKIE_BYTES) for number in range(TOO_MANY_FIELDS)])
            check(answer.status in (400, 431), answer.status)
            said = f"status {answer.status}"
        except Reset as reset:
            said = str(reset)
        await site.is_well(client)
        limit = client.http.received_settings.get(Setting.MAX_FIELD_SECTION_SIZE)
        return f"{said}; SETTINGS_MAX_FIELD_SECTION_SIZE {limit}"


@case("9218", "an urgent response overtakes a large one, by field and by PRIORITY_UPDATE")
async def priority(site):
    async with site.connect() as client:
        large_stream, answer = client.begin("GET", "/large.bin", [("priority", "u=7")])
        await in_time(answer.begun)
        urgent = await client.get("/a.txt", [("priority", "u=0")])
        check(urgent.status == 200 and not answer.done.done(), "the large one came first")
        # PRIORITY_UPDATE of a request stream is a frame of the control stream (9218-7.2).
        client.send_frame(client.control_stream(), 0xF0700, encode_uint_var(large_stream) + b"u=1, i")
        # Of one that is not open yet.
        client.send_frame(client.control_stream(), 0xF0700, encode_uint_var(large_stream + 400) + b"u=5")
        site.check_large(await in_time(answer.done))
        await site.is_well(client)


@case("9114-4.1.1", "a response that the client leaves: the application hears of it, and the connection stays")
async def cancel(site):
    async with site.connect() as client:
        async def gone():
            return int((await client.get("/app/gone")).content)
        before = await gone()
        stream, answer = client.begin("GET", "/app/endless")
        await in_time(answer.begun)
        client._quic.stop_stream(stream, 0x10C)
        client.transmit()
        while await gone() == before:
            pass
        # And with a request whose content is not over.
        stream, answer = client.new_stream()
        client.http.send_headers(stream, client.head("POST", "/app/upload"))
        client.http.send_data(stream, b"a part", False)
        client.transmit()
        client._quic.reset_stream(stream, 0x10C)
        client._quic.stop_stream(stream, 0x10C)
        client.transmit()
        await site.is_well(client)


@case("9114-9", "frames, settings and streams of unknown types are ignored")
async def grease(site):
    async with site.connect() as client:
        reserved = 0x1F * 7 + 0x21
        client.send_frame(client.control_stream(), reserved, b"unknown")
        client.send_raw(client.uni_stream(), encode_uint_var(reserved) + b"a stream of an unknown type")
        ended = client.uni_stream()
        client.send_raw(ended, encode_uint_var(reserved + 0x1F), end=True)
        stream, answer = client.new_stream()
        client.send_frame(stream, reserved, b"before")
        client.http.send_headers(stream, client.head("POST", "/app/upload"))
        client.send_frame(stream, reserved, b"between")
        client.http.send_data(stream, b"abc", False)
        client.send_frame(stream, reserved, b"", end=True)
        check_upload(await in_time(answer.done), b"abc")
        await site.is_well(client)


@case("9001-6", "key updates, between requests and during a download")
async def key_update(site):
    async with site.connect() as client:
        while not client._quic._handshake_confirmed:
            await in_time(client.ping())
        for _ in range(3):
            # One may follow the other when that is acknowledged (9001-6.1).
            client.request_key_update()
            await in_time(client.ping())
            await site.is_well(client)
        _, answer = client.begin("GET", "/large.bin")
        await in_time(answer.begun)
        client.request_key_update()
        site.check_large(await in_time(answer.done))


@case("9000-9", "migration to another port with another connection ID, during a download")
async def migration(site):
    async with site.connect() as client:
        await site.is_well(client)
        _, answer = client.begin("GET", "/large.bin")
        await in_time(answer.begun)
        for _ in range(2):
            await client.move(with_new_id=True)
            await in_time(client.ping())
        check(not answer.done.done(), "the download was over before")
        site.check_large(await in_time(answer.done))
        await site.is_well(client)


@case("9000-9.3.3", "a NAT that forgets its mapping: between requests, in a download, in an upload")
async def rebinding(site):
    async with site.connect() as client:
        await site.is_well(client)
        await client.move(with_new_id=False)
        await site.is_well(client)
        _, answer = client.begin("GET", "/large.bin")
        await in_time(answer.begun)
        await client.move(with_new_id=False)
        await in_time(client.ping())
        site.check_large(await in_time(answer.done))
        content = os.urandom(UPLOAD_BYTES // 10)
        _, answer = client.begin("POST", "/app/upload", content=content)
        await in_time(client.ping())
        await client.move(with_new_id=False)
        check_upload(await in_time(answer.done), content)


@case("9001-4.6, 8470", "0-RTT: a GET is answered early, a POST is answered or gets 425")
async def early_data(site):
    tickets = []
    async with site.connect(tickets=tickets) as client:
        await site.is_well(client)
        # A ticket may follow the first response.
        while not tickets:
            await in_time(client.ping())
    said = []
    for method, content in (("GET", None), ("POST", b"early")):
        ticket = tickets[-1]
        check(ticket.max_early_data_size, "the ticket allows no early data")
        async with site.connect(session_ticket=ticket, wait=False, tickets=tickets) as client:
            path = "/app/upload" if content else "/a.txt"
            stream, answer = client.begin(method, path, content=content)
            handshake = await in_time(client.handshake)
            check(handshake.session_resumed and handshake.early_data_accepted, handshake)
            await in_time(answer.done)
            said.append(f"{method} {answer.status}")
            check(answer.status == 200 or (content and answer.status == 425), said)
            await site.is_well(client)
            while len(tickets) < len(said) + 1:
                await in_time(client.ping())
    return ", ".join(said)


@case("9000-8.1.3", "a token of NEW_TOKEN is taken in the next connection")
async def token(site):
    tokens = []
    async with site.connect(tokens=tokens) as client:
        await site.is_well(client)
    if not tokens:
        return "the server sends none"
    async with site.connect(token=tokens[-1]) as client:
        await site.is_well(client)
    # One that is damaged is no reason to refuse a client.
    damaged = bytes([tokens[-1][0] ^ 1]) + tokens[-1][1:]
    async with site.connect(token=damaged) as client:
        await site.is_well(client)
    return f"{len(tokens)} tokens"


@case("9220, 6455", "a WebSocket: text, 200 KB, a ping, the closing handshake")
async def websocket(site):
    async with site.connect() as client:
        await site.is_well(client)
        settings = client.http.received_settings
        check(settings.get(Setting.ENABLE_CONNECT_PROTOCOL) == 1, f"it is not offered: {settings}")
        stream, answer = client.new_stream()
        head = dict(client.head("CONNECT", "/app/ws", [("sec-websocket-version", "13")]))
        fields = {b":method": head.pop(b":method"), b":protocol": b"websocket", **head}
        client.http.send_headers(stream, list(fields.items()))
        client.transmit()
        check(await in_time(answer.begun) == 200, answer.status)
        taken = 0
        for opcode, content in [(1, "grüße".encode()), (2, os.urandom(200_000)), (9, b"ping"), (8, b"\x03\xe8")]:
            client.http.send_data(stream, websocket_frame(opcode, content), False)
            client.transmit()
            frame, taken = await next_frame(client, answer, taken)
            expected = (10 if opcode == 9 else opcode, content)
            check(frame == expected, lambda: f"{frame[0]} of {len(frame[1])} bytes")
        # Either side may end the stream first. A server that has may want no more (9114-4.1).
        if stream not in client.stopped:
            client.send_raw(stream, b"", end=True)
        await in_time(answer.done)
        check(client.stopped.get(stream) in (None, ErrorCode.H3_NO_ERROR), client.stopped)
        await site.is_well(client)


def websocket_frame(opcode, content):
    length = len(content)
    if length < 126:
        head = bytes([0x80 | opcode, 0x80 | length])
    elif length < 1 << 16:
        head = bytes([0x80 | opcode, 0xFE]) + length.to_bytes(2, "big")
    else:
        head = bytes([0x80 | opcode, 0xFF]) + length.to_bytes(8, "big")
    # A mask of zeros changes nothing.
    return head + bytes(4) + content


async def next_frame(client, answer, taken):
    """The next frame from this place on: opcode and content, and the place after it. Fragments are joined."""
    content, opcode = b"", 0
    while True:
        piece = bytes(answer.content[taken:taken + 10])
        size = 2 if len(piece) < 2 or piece[1] < 126 else 4 if piece[1] == 126 else 10
        if len(piece) >= size:
            length = piece[1] if size == 2 else int.from_bytes(piece[2:size], "big")
            if len(answer.content) >= taken + size + length:
                content += bytes(answer.content[taken + size:taken + size + length])
                opcode = opcode or piece[0] & 15
                taken += size + length
                if piece[0] & 0x80:
                    return (opcode, content), taken
                continue
        check(not answer.done.done(), "the stream has ended")
        await in_time(client.ping())


@case("9002-6.2", "a response that does not arrive is sent again, for as long as it takes")
async def lost_response(site):
    async with site.connect() as client:
        loop = asyncio.get_running_loop()
        # Until it needs nothing else.
        for _ in range(3):
            await in_time(client.ping())
        _, answer = client.begin("GET", "/a.txt")
        client._timer.cancel()
        asked, dropped = loop.time(), 0

        def deaf(data, addr):
            nonlocal dropped
            if loop.time() - asked < DEAF_SECS:
                dropped += 1
            else:
                del client.datagram_received
                client.datagram_received(data, addr)

        # Nothing that the client sends reminds the server.
        client.datagram_received = deaf
        await in_time(answer.done)
        check((answer.status, bytes(answer.content)) == (200, b"file a\n"), lambda: (answer.status, bytes(answer.content)))
        return f"{dropped} datagrams were lost"


@case("9000-6.1", "an unknown version gets Version Negotiation with version 1")
async def version_negotiation(site):
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.setblocking(False)
        await loop.sock_connect(raw, ("127.0.0.1", urlsplit(site.origin).port))
        mine, theirs = os.urandom(8), os.urandom(8)
        packet = b"\xc0" + bytes.fromhex("1a2a3a4a") + b"\x08" + theirs + b"\x08" + mine
        # Smaller ones are not answered (9000-5.2.2): only the second one is.
        await loop.sock_sendall(raw, packet.ljust(1199, b"\0"))
        await loop.sock_sendall(raw, packet.ljust(1200, b"\0"))
        answer = Buffer(data=await in_time(loop.sock_recv(raw, 2000)))
        check(answer.pull_uint8() & 0x80 and answer.pull_uint32() == 0, "no Version Negotiation")
        check(answer.pull_bytes(answer.pull_uint8()) == mine and answer.pull_bytes(answer.pull_uint8()) == theirs, "other IDs")
        versions = [answer.pull_uint32() for _ in range((answer.capacity - answer.tell()) // 4)]
        check(1 in versions, versions)
        return f"versions {[hex(version) for version in versions]}"


@case("7838", "over TCP, Alt-Svc says where HTTP/3 is")
async def alt_svc(site):
    port = urlsplit(site.origin).port

    def ask():
        connection = http.client.HTTPSConnection("localhost", port, context=ssl.create_default_context(cafile=site.ca), timeout=30)
        connection.request("GET", "/a.txt")
        return connection.getresponse().getheader("alt-svc")

    said = await asyncio.get_running_loop().run_in_executor(None, ask)
    check(said and f'h3=":{port}"' in said, said)
    return said


@case("9114-5.2", "a reload: GOAWAY, responses that have begun are whole, and new connections are answered all the time")
async def reload(site):
    if site.server is None:
        return "left out: --server is not given"
    async with site.connect() as client, site.connect() as idle:
        await site.is_well(idle)
        content = os.urandom(UPLOAD_BYTES // 10)
        _, down = client.begin("GET", "/large.bin")
        up_stream, up = client.new_stream()
        client.http.send_headers(up_stream, client.head("POST", "/app/upload"))
        client.http.send_data(up_stream, content, False)
        client.transmit()
        await in_time(down.begun)
        os.kill(site.server, signal.SIGHUP)
        asked = 0
        # As long as the old process has not said that it goes.
        while not (client.http.goaway() and idle.http.goaway()):
            async with site.connect() as another:
                await site.is_well(another)
                asked += 1
        client.http.send_data(up_stream, b"", True)
        client.transmit()
        site.check_large(await in_time(down.done))
        check_upload(await in_time(up.done), content)
        async with site.connect() as another:
            await site.is_well(another)
        closed = await in_time(client.closed)
        check((closed.of_application, closed.code) == (True, ErrorCode.H3_NO_ERROR), closed)
        return f"GOAWAY {[hex(number) for number in client.http.goaway()]}, {asked} connections meanwhile"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ca")
    parser.add_argument("--server", type=int)
    parser.add_argument("origin")
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    table.main(given.case, Site(given.origin, given.ca, given.server))
