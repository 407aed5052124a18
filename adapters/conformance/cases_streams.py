"""Cases about bodies that come while the application runs, for adapters that say STREAMS."""

import hashlib
import os
import select
import socket
import time

from kit import CANCEL, CLEAN, DEADLINE_S, FORGET, PING, PONG, Skipped, equal, expect, frame, request_frame

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def _need_streams(worker):
    """`welcome`, and a request, behind whose answer everything that belongs to the start is known."""
    worker.welcome()
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body")
    if not worker.streams:
        raise Skipped("it does not say STREAMS")


def _begin(worker, target, size=None, number=1, **options):
    """A request whose body follows on the response descriptor; our end of that."""
    near, far = socket.socketpair()
    far.setblocking(False)
    near.settimeout(DEADLINE_S)
    data = request_frame(
        0x8000_0000 + number, number, target, method="POST", body_stream=size, descriptors=1, **options
    )
    worker.send(data, [far.fileno()])
    far.close()
    return near


def _chunks(data, trailers=b""):
    """The body in two chunks of different sizes, or none."""
    cut = len(data) // 3
    pieces = [piece for piece in (data[:cut], data[cut:]) if piece]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n"


def _response(near, worker, number=1):
    """What comes up to DONE, which has to be clean, and the end after FORGET."""
    done = worker.done()
    equal((done.flags, done.request), (CLEAN, number), "flags and request of DONE")
    worker.send(frame(FORGET, connection=0x8000_0000 + number))
    data = b""
    while piece := near.recv(65536):
        data += piece
    return data + done.tail


def _summed(near, worker, data, number=1):
    body = _response(near, worker, number).partition(b"\r\n\r\n")[2].decode()
    equal(body, f"{len(data)} {hashlib.sha256(data).hexdigest()}", "bytes and sum of the body")


def streamed_bodies_of_known_length_are_read(worker):
    _need_streams(worker)
    for number, size in enumerate((1, 65536, 5_000_000, 0)):
        data = os.urandom(size)
        with _begin(worker, "/sum", size, number) as near:
            near.sendall(data)
            _summed(near, worker, data, number)


def streamed_bodies_in_chunks_are_read(worker):
    _need_streams(worker)
    for number, size in enumerate((1, 65536, 5_000_000, 0)):
        data = os.urandom(size)
        with _begin(worker, "/sum", None, number) as near:
            near.sendall(_chunks(data, b"x-sum: 17\r\nx-other: y\r\n" if number % 2 else b""))
            _summed(near, worker, data, number)


def streamed_bodies_may_be_cut_anywhere(worker):
    _need_streams(worker)
    data = b"0123456789abcdefghi"
    whole = _chunks(data, b"x-sum: 17\r\n")
    for number in range(1, len(whole)):
        with _begin(worker, "/sum", None, number) as near:
            near.sendall(whole[:number])
            worker.send(frame(PING, request=number))
            if worker.capacity > 1:
                equal(worker.read_frame()[0], PONG, "kind of a frame")
            near.sendall(whole[number:])
            _summed(near, worker, data, number)
            if worker.capacity == 1:
                equal(worker.read_frame()[0], PONG, "kind of a frame")


def a_streamed_body_that_ends_too_early_is_not_taken_for_whole(worker):
    _need_streams(worker)
    whole = _chunks(b"z" * 1000)
    parts = [(1000, b""), (1000, b"z" * 999), (None, b"")]
    parts += [(None, whole[:count]) for count in (1, 500, len(whole) - 5, len(whole) - 2, len(whole) - 1)]
    for number, (size, sent) in enumerate(parts):
        with _begin(worker, "/sum", size, number) as near:
            near.sendall(sent)
            near.shutdown(socket.SHUT_WR)
            expect(worker.done().status != 200, f"{len(sent)} bytes were taken for a whole body of {size}")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_streamed_body_that_is_no_chunks_is_not_taken_for_one(worker):
    _need_streams(worker)
    for number, data in enumerate((b"zz\r\n", b"-1\r\nx\r\n0\r\n\r\n", b"1\r\nxyz\r\n0\r\n\r\n", b"\r\n\r\n")):
        with _begin(worker, "/sum", None, number) as near:
            near.sendall(data)
            near.shutdown(socket.SHUT_WR)
            expect(worker.done().status != 200, f"{data!r} was taken for a body")


def a_client_that_waits_is_asked_for_its_body(worker):
    _need_streams(worker)
    data = b"hello"
    for number, size in enumerate((5, None), 1):
        with _begin(worker, "/sum", size, number, says={"continue": "1"}) as near:
            asked = b""
            while len(asked) < len(CONTINUE):
                asked += near.recv(len(CONTINUE) - len(asked))
            equal(asked, CONTINUE, "what asks for the body")
            near.sendall(data if size else _chunks(data))
            _summed(near, worker, data, number)


def a_client_is_not_asked_without_need(worker):
    """Neither if nothing is read, nor if it sends its body anyway."""
    _need_streams(worker)
    with _begin(worker, "/bytes/3", 5, says={"continue": "1"}) as near:
        expect(_response(near, worker).startswith(b"HTTP/1.1 200 "), "something comes before the response")
    with _begin(worker, "/sum", 5, 2) as near:
        near.sendall(b"hello")
        expect(_response(near, worker, 2).startswith(b"HTTP/1.1 200 "), "something comes before the response")


def a_streamed_body_that_nobody_reads_is_left_on_the_descriptor(worker):
    _need_streams(worker)
    with _begin(worker, "/slow/100", 50_000_000) as near:
        sent, deadline = 0, time.monotonic() + DEADLINE_S
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


def a_cancelled_request_does_not_wait_for_its_body(worker):
    _need_streams(worker)
    for number, size in enumerate((1000, None), 1):
        with _begin(worker, "/sum", size, number) as near:
            near.sendall(b"1\r\nz")
            near.shutdown(socket.SHUT_WR)
            worker.send(frame(CANCEL, connection=0x8000_0000 + number, request=number))
            expect(worker.done().status != 200, "a part of a body was taken for a whole one")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def no_report_waits_for_a_streamed_body(worker):
    """The next request is there at once, and of its body nothing."""
    _need_streams(worker)
    client = worker.client()
    for number in range(1, 6):
        first = request_frame(7, 10 * number, "/bytes/1", descriptors=int(number == 1))
        near, far = socket.socketpair()
        far.setblocking(False)
        near.settimeout(DEADLINE_S)
        second = request_frame(0x8000_0000 + number, number, "/sum", method="POST", body_stream=1, descriptors=1)
        passed = [client.far.fileno()] if number == 1 else []
        worker.send(first + second, [*passed, far.fileno()])
        far.close()
        with near:
            equal(worker.done().request, 10 * number, "request of the first DONE")
            near.sendall(b"z")
            _summed(near, worker, b"z", number)


def what_is_no_streamed_body_is_refused(worker):
    """It has another way to come, or is in the frame as well."""
    _need_streams(worker)
    near, far = socket.socketpair()
    with near, far:
        data = request_frame(0x8000_0001, 1, "/sum", method="POST", body_stream=4, early=b"body", descriptors=1)
        worker.send(data, [far.fileno()])
        status = worker.exit_status()
        expect(status > 0, f"exit status {status} after a body that comes in two ways")
        expect(worker.errors().strip(), "no word on standard error")


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__code__", None) and case.__module__ == __name__ and not name.startswith("_")
}
