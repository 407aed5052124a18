"""Cases about what goes beyond one response on one socket: tails, bodies in files, cancelling, taking over, concurrency."""

import hashlib
import os
import select
import socket
import struct
import tempfile
import time
import urllib.parse

import websocket
from kit import (
    CANCEL, CLEAN, DEADLINE_S, DETACH, DONE, FILE, FORGET, KEEP, MAY_DETACH, PING, PONG, SHUTDOWN, Skipped, equal, expect,
    frame, request_frame,
)

# Far more than the sockets between two ends hold.
LARGE = 20_000_000


def _slow_client(worker):
    client = worker.client()
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    return client


def _large(worker):
    """More than the sockets hold; but no more than TAILs of bytes take, from a worker that writes no files of its own."""
    return 1_000_000 if worker.sockets_only else LARGE


def _pattern(count):
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


def a_client_that_does_not_read_holds_no_worker(worker):
    worker.welcome()
    large = _large(worker)
    client = _slow_client(worker)
    worker.send(request_frame(7, 1, f"/bytes/{large}", descriptors=1), [client.far.fileno()])
    done = worker.done()
    equal((done.flags, done.status, done.body_bytes), (CLEAN, 200, large), "DONE")
    expect(done.tail, "no TAIL for a response that the socket cannot hold")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of another client")
    client.deliver(done.tail)
    body = client.answer().body
    equal((len(body), set(body)), (large, {ord("x")}), "body")


def a_tail_continues_where_the_worker_stopped(worker):
    worker.welcome()
    client = _slow_client(worker)
    for size in (3_000_000, 400_000, 5_000_000):
        answer, done, _ = worker.ask(f"/file/{size}", client)
        equal((done.flags, done.body_bytes), (CLEAN, size), "DONE")
        expect(answer.body == _pattern(size), "the body is not in order")


def a_small_rest_is_a_tail_too(worker):
    worker.welcome()
    client = _slow_client(worker)
    # The socket is full already, so that even the head has no room.
    filling = b"HTTP/1.1 200 OK\r\nDate: x\r\nServer: x\r\nContent-Length: 100000000\r\n\r\n"
    total = client.fill(filling)
    worker.send(request_frame(7, 1, "/bytes/10", descriptors=1), [client.far.fileno()])
    done = worker.done()
    equal((done.flags, done.body_bytes), (CLEAN, 10), "DONE")
    expect(done.tail.startswith(b"HTTP/1.1 200") and done.tail.endswith(b"\r\n\r\nxxxxxxxxxx"), "the tail is not all of it")
    equal(client.read_exactly(total)[: len(filling)], filling, "what was there before")
    expect(client.is_quiet(), "the worker wrote to the socket after its TAIL")


def pieces_that_the_socket_does_not_take_are_tails_in_order(worker):
    worker.welcome()
    client = _slow_client(worker)
    worker.send(request_frame(7, 1, "/chunks/100/20000", descriptors=1), [client.far.fileno()])
    if worker.capacity == 1:
        done = worker.done()
        client.deliver(done.tail)
    else:
        done = worker.done_of(client)
    answer = client.answer()
    equal((answer.how, len(answer.body), set(answer.body)), ("chunked", 2_000_000, {ord("y")}), "body")
    equal((done.flags, done.body_bytes), (CLEAN, 2_000_000), "DONE")


def a_large_file_is_passed_and_not_copied(worker):
    worker.welcome()
    answer, done, _ = worker.ask("/file/5000000")
    expect(answer.body == _pattern(5_000_000), "body")
    equal(answer.how, "length", "framing")
    equal(done.body_bytes, 5_000_000, "body bytes in DONE")
    if FILE not in done.tails:
        # A worker may, and need not: its client has the whole file.
        raise Skipped("it passes no files")


def a_small_file_arrives(worker):
    worker.welcome()
    answer, done, _ = worker.ask("/file/1000")
    equal((answer.body, done.body_bytes), (_pattern(1000), 1000), "body")


def head_of_a_file_has_no_tail(worker):
    worker.welcome()
    answer, done, _ = worker.ask("/file/5000000", method="HEAD")
    equal((done.flags, done.tails, done.body_bytes), (CLEAN, [], 0), "DONE")
    expect(answer.one("content-length") in (None, "5000000"), "Content-Length differs from that of GET")


def a_tail_after_http10_ends_with_the_connection(worker):
    worker.welcome()
    client = _slow_client(worker)
    answer, done, _ = worker.ask("/file/3000000", client, flags=0)
    equal((answer.one("connection"), done.flags), ("close", CLEAN), "Connection and DONE")
    expect(answer.body == _pattern(3_000_000), "body")


def files_are_named_by_x_sendfile(worker):
    worker.welcome()
    answer, done, _ = worker.ask("/sendfile/3000000", says={"sendfile_root": tempfile.gettempdir()})
    expect(answer.body == _pattern(3_000_000), "body")
    equal(answer.all("x-sendfile"), [], "X-Sendfile in the response")
    expect(FILE in done.tails, "the file was not passed as a TAIL")


def _named(worker, path, root):
    says = {"sendfile_root": root} if root else {}
    return worker.ask(f"/sendfile-path?{urllib.parse.quote(path, safe='/')}", says=says)


def x_sendfile_without_a_root_is_a_field_as_any_other(worker):
    worker.welcome()
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"not for you")
        file.flush()
        for path in (file.name, "/etc/passwd", "relative"):
            answer, done, client = _named(worker, path, None)
            equal((answer.status, answer.body, done.flags), (200, b"instead", CLEAN), "status, body and DONE")
            equal(answer.all("x-sendfile"), [path], "X-Sendfile in the response")
        equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def x_sendfile_names_files_below_the_root(worker):
    """The root, and what is named, may be reached by links; what counts is where they lead."""
    worker.welcome()
    with tempfile.TemporaryDirectory() as outer:
        # The worker may have another account.
        os.chmod(outer, 0o755)
        root = os.path.join(outer, "root")
        os.makedirs(os.path.join(root, "sub"))
        os.symlink(root, os.path.join(outer, "link"))
        with open(os.path.join(root, "sub", "file"), "wb") as file:
            file.write(_pattern(5000))
        os.symlink("sub/file", os.path.join(root, "inner"))
        for path in ("sub/file", "inner", "sub/../sub/./file"):
            for named, said in ((root, root), ("link", root), (root, "link"), (root, f"{root}/")):
                answer, done, _ = _named(worker, os.path.join(outer, named, path), os.path.join(outer, said))
                equal((answer.status, answer.body), (200, _pattern(5000)), f"status and body of {path}")
                equal((answer.all("x-sendfile"), answer.how, done.flags), ([], "length", CLEAN), "field, framing and DONE")


def x_sendfile_outside_of_the_root_is_a_500(worker):
    worker.welcome()
    with tempfile.TemporaryDirectory() as outer:
        # The worker may have another account.
        os.chmod(outer, 0o755)
        root = os.path.join(outer, "root")
        os.makedirs(os.path.join(root, "sub"))
        os.makedirs(os.path.join(outer, "root-of-others"))
        secrets = [os.path.join(outer, "secret"), os.path.join(outer, "root-of-others", "secret")]
        for name in secrets:
            with open(name, "wb") as file:
                file.write(b"not for you")
        os.symlink("../secret", os.path.join(root, "link"))
        os.symlink("..", os.path.join(root, "up"))
        os.mkfifo(os.path.join(root, "pipe"))
        inside = ("link", "up/secret", "../secret", "sub/../../secret", "missing", "sub", "pipe", ".")
        for path in [*secrets, *(os.path.join(root, name) for name in inside), "secret", "root/sub", "/dev/null"]:
            answer, done, client = _named(worker, path, root)
            equal((answer.status, done.status), (500, 500), f"status of {path!r}")
            expect(b"not for you" not in answer.body and path.encode() not in answer.body, "what is said")
            equal(answer.all("x-sendfile"), [], "X-Sendfile in the response")
        equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def relays_are_sockets_as_any_other(worker):
    """The response descriptor is one end of a socketpair, and the number has its highest bit set."""
    worker.welcome()
    large = _large(worker)
    near, far = socket.socketpair()
    far.setblocking(False)
    near.settimeout(DEADLINE_S)
    connection = 0x8000_0005
    worker.send(request_frame(connection, 1, "/bytes/1000", descriptors=1), [far.fileno()])
    done = worker.done()
    equal((done.connection, done.flags), (connection, CLEAN), "DONE")
    expect(near.recv(65536).endswith(b"x" * 1000), "body")
    worker.send(request_frame(connection, 2, f"/bytes/{large}"))
    done = worker.done()
    equal((done.request, done.flags, done.body_bytes), (2, CLEAN, large), "DONE")
    expect(done.tail, "no TAIL for a response that the socket cannot hold")
    worker.send(frame(FORGET, connection=connection) + frame(PING, request=3))
    equal(worker.read_frame()[0], PONG, "kind")
    far.close()
    data = b""
    while piece := near.recv(65536):
        data += piece
    near.close()
    equal(len(data.partition(b"\r\n\r\n")[2]) + len(done.tail), large, "bytes of the body")


def _sum(worker, data, **options):
    answer, done, _ = worker.ask("/sum", method="POST", **options)
    equal(done.flags, CLEAN, "flags of DONE")
    equal(answer.body.decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}", "bytes and sum of the body")


def a_body_in_a_file_is_read(worker):
    worker.need_files()
    data = os.urandom(5_000_000)
    with tempfile.TemporaryFile() as spool:
        spool.write(data)
        spool.flush()
        # Where the descriptor stands does not count: here it is the end.
        for _ in range(2):
            _sum(worker, data, body_file=len(data), descriptors=[spool.fileno()])
    _sum(worker, b"inline", body=b"inline")


def a_body_in_a_file_may_be_small_or_empty(worker):
    worker.need_files()
    for data in (b"", b"x", b"y" * 65536):
        with tempfile.TemporaryFile() as spool:
            spool.write(data)
            spool.flush()
            _sum(worker, data, body_file=len(data), descriptors=[spool.fileno()])


def a_body_in_a_file_comes_alone_for_a_known_connection(worker):
    worker.need_files()
    client, data = worker.client(), b"file" * 10_000
    worker.send(request_frame(7, 1, "/bytes/1", descriptors=1), [client.far.fileno()])
    worker.done(), client.answer()
    with tempfile.TemporaryFile() as spool:
        spool.write(data)
        spool.flush()
        worker.send(request_frame(7, 2, "/sum", method="POST", body_file=len(data)), [spool.fileno()])
    done = worker.done()
    equal((done.request, done.flags), (2, CLEAN), "DONE")
    equal(client.answer().body.split()[0], b"40000", "bytes of the body")


def descriptors_of_bodies_are_taken_whether_they_are_read_or_not(worker):
    worker.need_files()
    with tempfile.TemporaryFile() as spool:
        spool.write(b"body")
        spool.flush()
        for _ in range(5):
            worker.ask("/bytes/1", method="POST", body_file=4, descriptors=[spool.fileno()])
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body on the right descriptor")


def _need_streams(worker):
    worker.welcome()
    if not worker.sockets_only:
        raise Skipped("it takes bodies in files")


def _relay(worker, size, target, number=1):
    """A request whose body follows on the response descriptor; our end of that."""
    near, far = socket.socketpair()
    far.setblocking(False)
    near.settimeout(DEADLINE_S)
    data = request_frame(0x8000_0000 + number, number, target, method="POST", body_stream=size, descriptors=1)
    worker.send(data, [far.fileno()])
    far.close()
    return near


def a_body_on_the_response_descriptor_is_read(worker):
    _need_streams(worker)
    for number, size in enumerate((0, 1, 65536, 5_000_000)):
        data = os.urandom(size)
        with _relay(worker, size, "/sum", number) as near:
            near.sendall(data)
            equal(worker.done().flags, CLEAN, "flags of DONE")
            found = near.recv(65536).partition(b"\r\n\r\n")[2].decode()
            equal(found, f"{size} {hashlib.sha256(data).hexdigest()}", "bytes and sum of the body")
            worker.send(frame(FORGET, connection=0x8000_0000 + number))
            equal(near.recv(1), b"", "what comes after FORGET")


def a_body_that_nobody_reads_is_left_on_the_descriptor(worker):
    _need_streams(worker)
    with _relay(worker, 50_000_000, "/slow/100") as near:
        sent, deadline = 0, time.monotonic() + 5
        near.setblocking(False)
        while not select.select([worker.sock], [], [], 0)[0] and time.monotonic() < deadline:
            try:
                sent += near.send(b"z" * 65536)
            except BlockingIOError:
                select.select([worker.sock], [], [], 0.01)
        expect(sent < 20_000_000, f"{sent} bytes were taken that the application has not asked for")
        equal(worker.done().flags, CLEAN, "flags of DONE")
        worker.send(frame(FORGET, connection=0x8000_0001))
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_body_that_breaks_off_is_not_taken_for_whole(worker):
    _need_streams(worker)
    with _relay(worker, 1000, "/sum") as near:
        near.sendall(b"z" * 999)
        near.shutdown(socket.SHUT_WR)
        expect(worker.done().status != 200, "a body that is not whole was taken for whole")


def cancel_of_what_is_not_under_way_is_ignored(worker):
    worker.welcome()
    _, done, _ = worker.ask("/bytes/1")
    worker.send(frame(CANCEL, connection=done.connection, request=done.request) + frame(CANCEL, connection=9, request=9))
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_cancelled_request_is_reported_all_the_same(worker):
    worker.welcome()
    client = worker.client()
    data = request_frame(7, 1, "/slow/30", descriptors=1) + request_frame(7, 2, "/bytes/1")
    worker.send(data + frame(CANCEL, connection=7, request=2), [client.far.fileno()])
    dones = [worker.done() for _ in range(2)]
    equal(sorted(done.request for done in dones), [1, 2], "requests reported")
    for done in dones:
        expect(done.flags == CLEAN or done.request == 2, "a request that was not cancelled is broken")
        expect(done.status in (0, 200), f"status {done.status}")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def cancel_reaches_a_running_request(worker):
    """Only for applications that notice a cancellation: `/wait` ends when its client has gone."""
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/wait", descriptors=1), [client.far.fileno()])
    worker.send(frame(CANCEL, connection=7, request=1))
    # It does not end before it is told.
    equal(worker.done().flags, 0, "flags of DONE")


def a_silent_request_that_was_cancelled_ends_without_its_socket(worker):
    """What follows a request that was silent for too long: CANCEL, then `shutdown` of the response descriptor, and DONE when the
    application has ended. Other requests are not disturbed."""
    worker.welcome()
    silent, other = worker.client(), worker.client()
    worker.send(request_frame(7, 1, "/slow/300", descriptors=1), [silent.far.fileno()])
    worker.send(frame(CANCEL, connection=7, request=1) + frame(PING, request=5))
    silent.far.shutdown(socket.SHUT_RDWR)
    worker.send(request_frame(8, 2, "/bytes/3", descriptors=1), [other.far.fileno()])
    pongs, dones = [], {}
    while len(pongs) + len(dones) < 3:
        kind, flags, _, number, _ = worker.read_frame()
        if kind == DONE:
            dones[number] = flags
        elif kind == PONG:
            pongs.append(number)
    equal((pongs, dones), ([5], {1: 0, 2: CLEAN}), "PONGs, and flags of DONEs")
    equal(other.answer().body, b"xxx", "body of the other response")
    worker.send(frame(FORGET, connection=7))
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_stream_to_a_socket_that_the_server_shuts_down_ends(worker):
    """Even if the application gets no event: writing fails."""
    worker.need_concurrency()
    client = worker.client()
    worker.send(request_frame(7, 1, "/chunks/1000000/100000", descriptors=1), [client.far.fileno()])
    expect(client.more(), "no beginning of the response")
    client.far.shutdown(socket.SHUT_RDWR)
    done = worker.done()
    equal(done.flags, 0, "flags of DONE")
    expect(done.body_bytes < 100_000_000_000, "all of it was written")


def a_cancelled_stream_ends(worker):
    worker.need_concurrency()
    client = _slow_client(worker)
    worker.send(request_frame(7, 1, "/chunks/1000/100000", descriptors=1), [client.far.fileno()])
    worker.send(frame(CANCEL, connection=7, request=1))
    # As it happens to end: aborted, or all of it written, and the rest left as TAILs.
    done = worker.done()
    expect(done.flags == 0 or done.flags == CLEAN and done.body_bytes == 100_000_000, "DONE of a stream that did not end")


def a_slow_request_does_not_hold_up_another(worker):
    worker.need_concurrency()
    slow, fast = worker.client(), worker.client()
    data = request_frame(7, 1, "/slow/500", descriptors=1) + request_frame(8, 2, "/bytes/3", descriptors=1)
    worker.send(data, [slow.far.fileno(), fast.far.fileno()])
    equal([worker.done().request, worker.done().request], [2, 1], "order of the reports")
    equal((fast.answer().body, slow.answer().body), (b"xxx", b"slow"), "bodies")


def as_many_requests_as_the_capacity_run_at_once(worker):
    worker.need_concurrency()
    count = min(worker.capacity, 50)

    def took_s(first):
        clients = {n: worker.client() for n in range(first, first + count)}
        data = b"".join(request_frame(n, n, "/slow/200", descriptors=1) for n in clients)
        began = time.monotonic()
        worker.send(data, [client.far.fileno() for client in clients.values()])
        equal(sorted(worker.done().request for _ in clients), list(clients), "requests reported")
        took = time.monotonic() - began
        for client in clients.values():
            equal(client.answer().body, b"slow", "body")
        return took

    # A machine with other work may need several attempts; one after another they are not as quick in any.
    quick = any(took_s(attempt * count) < 0.2 * max(count, 3) / 2 for attempt in range(5))
    expect(quick, "they ran one after another")


def a_slow_client_does_not_hold_up_a_stream_to_another(worker):
    worker.need_concurrency()
    stuck, other = _slow_client(worker), worker.client()
    worker.send(request_frame(7, 1, "/chunks/100/100000", descriptors=1), [stuck.far.fileno()])
    worker.send(request_frame(8, 2, "/chunks/10/100000", descriptors=1), [other.far.fileno()])
    # A worker may have done with the slow client first, if it gives the rest back.
    returned, done = None, worker.done_while(other)
    if done.connection == 7:
        returned, done = done, worker.done_while(other)
    other.deliver(done.tail)
    equal((len(other.answer().body), done.connection), (1_000_000, 8), "bytes of the other body")
    if returned:
        stuck.deliver(returned.tail)
    done = returned or worker.done_of(stuck)
    equal((len(stuck.answer().body), done.flags), (10_000_000, CLEAN), "bytes and flags")


def forget_waits_for_what_runs(worker):
    worker.need_concurrency()
    client = worker.client()
    data = request_frame(7, 1, "/slow/100", descriptors=1) + frame(FORGET, connection=7)
    worker.send(data, [client.far.fileno()])
    client.far.close()
    equal(client.answer().body, b"slow", "body")
    equal(worker.done().flags, CLEAN, "flags of DONE")
    equal(client.rest(), b"", "what came afterwards")


def ping_is_answered_while_requests_run(worker):
    worker.need_concurrency()
    client = worker.client()
    worker.send(request_frame(7, 1, "/slow/300", descriptors=1) + frame(PING, request=5), [client.far.fileno()])
    equal([worker.read_frame()[0], worker.read_frame()[0]], [PONG, DONE], "kinds")


def ten_thousand_requests_leak_no_descriptor(worker):
    worker.welcome()
    worker.wants_404 = True
    spool = tempfile.TemporaryFile()
    spool.write(b"body" * 100)
    spool.flush()

    def round_of(number):
        """100 requests on 10 connections, of which half carry a body, in a file if the worker takes those."""
        data, descriptors, clients = b"", [], [worker.client() for _ in range(10)]
        for n in range(100):
            connection = n % 10
            target, first = ("/bytes/100", "/file/100000")[n % 20 == 19], int(n < 10)
            descriptors += [clients[connection].far.fileno()] * first
            options, in_file = {"method": "POST", "body": b"body" * 100} if n % 2 else {}, n % 2 and not worker.sockets_only
            if in_file:
                options = {"method": "POST", "body_file": 400}
                descriptors.append(spool.fileno())
            data += request_frame(connection, number * 100 + n, target, descriptors=first, **options)
            if len(descriptors) > 50:
                worker.send(data, descriptors)
                data, descriptors = b"", []
        worker.send(data, descriptors)
        for _ in range(100):
            expect(worker.done().status in (200, 404), "a request failed")
        worker.send(b"".join(frame(FORGET, connection=n) for n in range(10)) + frame(PING, request=number))
        equal(worker.read_frame()[0], PONG, "kind")
        for client in clients:
            worker.drop(client)

    round_of(0)
    before = worker.open_files()
    for number in range(1, 101):
        round_of(number)
    spool.close()
    after = worker.open_files()
    expect(after <= before, f"{before} descriptors became {after}: {worker.names_of_files()}")


def a_drain_finishes_tails_too(worker):
    worker.welcome()
    large = _large(worker)
    client = _slow_client(worker)
    data = request_frame(7, 1, f"/bytes/{large}", descriptors=1) + frame(SHUTDOWN)
    worker.send(data, [client.far.fileno()])
    done = worker.done()
    equal((done.flags, done.body_bytes), (CLEAN, large), "DONE")
    expect(worker.at_end(), "more frames, or the channel stays open")
    equal(worker.exit_status(), 0, "exit status")
    client.deliver(done.tail)
    equal(len(client.answer().body), large, "bytes of the body")


UPGRADE = [
    ("upgrade", "websocket"),
    ("connection", "upgrade"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "other, echo"),
]


def _detached(worker, early=b"", target="/ws", number=7, **options):
    """A client whose connection the worker has taken over."""
    client = worker.client(relay=number >> 31 == 1)
    options |= {"fields": UPGRADE, "flags": KEEP | MAY_DETACH, "early": early, "descriptors": 1}
    worker.send(request_frame(number, 1, target, **options), [client.far.fileno()])
    kind, flags, connection, request, payload = worker.read_frame()
    if kind == DONE:
        status = struct.unpack_from("<H", payload)[0]
        if status in (403, 404):
            raise Skipped(target)
    equal((kind, flags, connection, request), (DETACH, 0, number, 1), "frame")
    equal(struct.unpack("<HH", payload), (101, 0), "status and reserved field of DETACH")
    client.far.close()
    return websocket.Client(client)


def an_upgrade_takes_the_connection_over(worker):
    worker.welcome()
    peer = _detached(worker)
    equal(peer.answer.status, 101, "status")
    equal(peer.answer.one("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-WebSocket-Accept")
    equal(peer.answer.one("sec-websocket-protocol"), "echo", "Sec-WebSocket-Protocol")
    equal((peer.answer.one("upgrade"), peer.answer.one("connection")), ("websocket", "Upgrade"), "Upgrade")
    peer.send(websocket.TEXT, "grüße".encode())
    equal(peer.receive(), (websocket.TEXT, "grüße".encode()), "echo")
    peer.send(websocket.BINARY, bytes(range(256)) * 1000)
    equal(peer.receive(), (websocket.BINARY, bytes(range(256)) * 1000), "echo")


def an_upgrade_names_no_server_where_none_is_wanted(worker):
    worker.welcome()
    own = worker.ask("/bytes/3")[0].one("server")
    if own != "maitred":
        raise Skipped(f"it is a server of its own, which names itself: {own}")
    peer = _detached(worker, says={"server_header": 0})
    equal((peer.answer.status, peer.answer.all("server")), (101, []), "status and Server")


def a_detached_connection_is_not_maitreds_any_more(worker):
    """FORGET of its number, or its reuse, does not touch it."""
    worker.welcome()
    peer = _detached(worker)
    worker.send(frame(FORGET, connection=7))
    client = worker.client()
    worker.send(request_frame(7, 2, "/bytes/3", descriptors=1), [client.far.fileno()])
    equal((worker.done().status, client.answer().body), (200, b"xxx"), "answer on the same number")
    peer.send(websocket.TEXT, b"still here")
    equal(peer.receive(), (websocket.TEXT, b"still here"), "echo")


def an_upgrade_takes_a_relay_over_too(worker):
    """The worker cannot tell, and its end is closed when the protocol has come to its end."""
    worker.welcome()
    peer = _detached(worker, number=0x8000_0007)
    equal((peer.answer.status, peer.answer.one("upgrade")), (101, "websocket"), "status and Upgrade")
    for size in (5, 300, 200_000):
        peer.send(websocket.BINARY, bytes(size))
        equal(peer.receive(), (websocket.BINARY, bytes(size)), "echo")
    peer.send(websocket.CLOSE, struct.pack(">H", 1000))
    equal(peer.receive(), (websocket.CLOSE, struct.pack(">H", 1000)), "close")
    equal(peer.client.rest(), b"", "what comes after the close")


def early_bytes_belong_to_the_new_protocol(worker):
    worker.welcome()
    whole = websocket.encode(websocket.TEXT, b"early")
    peer = _detached(worker, early=whole + whole[:3])
    equal(peer.receive(), (websocket.TEXT, b"early"), "echo")
    peer.write(whole[3:])
    equal(peer.receive(), (websocket.TEXT, b"early"), "echo")


def pings_fragments_and_closing_are_as_in_rfc_6455(worker):
    worker.welcome()
    peer = _detached(worker)
    peer.send(websocket.PING, b"are you there")
    equal(peer.receive(), (websocket.PONG, b"are you there"), "pong")
    peer.write(websocket.encode(websocket.TEXT, b"one ", final=False) + websocket.encode(websocket.PING, b""))
    peer.write(websocket.encode(0, b"message"))
    equal(peer.receive(), (websocket.PONG, b""), "pong between fragments")
    equal(peer.receive(), (websocket.TEXT, b"one message"), "message in fragments")
    peer.send(websocket.CLOSE, struct.pack(">H", 1000))
    equal(peer.receive(), (websocket.CLOSE, struct.pack(">H", 1000)), "close")
    equal(peer.client.rest(), b"", "what comes after the close")


def websocket_violations_are_answered_with_their_code(worker):
    worker.welcome()
    for data, code in (
        (b"\x81\x05hello", 1002),  # not masked
        (websocket.encode(websocket.TEXT, b"\xff\xfe"), 1007),
        (websocket.encode(3, b""), 1002),
        (b"\xc1" + websocket.encode(websocket.TEXT, b"x")[1:], 1002),  # a reserved bit
        (websocket.encode(0, b"nothing began"), 1002),
        (websocket.encode(websocket.PING, b"x" * 126), 1002),
    ):
        peer = _detached(worker)
        peer.write(data)
        kind, payload = peer.receive()
        equal((kind, struct.unpack(">H", payload[:2])[0]), (websocket.CLOSE, code), f"answer to {data[:8]!r}")


def an_upgrade_that_is_refused_is_a_plain_response(worker):
    worker.welcome()
    answer, done, client = worker.ask("/ws-refused", fields=UPGRADE, flags=KEEP | MAY_DETACH)
    equal((answer.status, done.flags), (403, CLEAN), "status and DONE")
    equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def an_upgrade_that_nobody_asked_for_is_not_taken(worker):
    """Any other request with MAY_DETACH is answered as usual."""
    worker.welcome()
    answer, done, _ = worker.ask("/bytes/3", fields=[("upgrade", "h2c"), ("connection", "upgrade")], flags=KEEP | MAY_DETACH)
    equal((answer.body, done.flags), (b"xxx", CLEAN), "answer and DONE")


def detached_connections_end_with_the_worker(worker):
    worker.welcome()
    if worker.process is None:
        raise Skipped("the process stays after its channels have ended, and so do its connections")
    peer = _detached(worker)
    peer.send(websocket.TEXT, b"x")
    peer.receive()
    worker.send(frame(SHUTDOWN))
    kind, payload = peer.receive()
    equal((kind, struct.unpack(">H", payload[:2])[0]), (websocket.CLOSE, 1001), "close")
    peer.send(websocket.CLOSE, payload)
    equal(peer.client.rest(), b"", "what comes after the close")
    equal(worker.exit_status(), 0, "exit status")


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__code__", None) and case.__module__ == __name__ and not name.startswith("_")
}
