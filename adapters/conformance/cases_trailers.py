"""Cases about TRAILERS, the frame before a REQUEST whose client has sent fields behind its body."""

import json
import socket
import tempfile

from kit import (
    CANCEL, CLEAN, FORGET, KEEP, MAY_DETACH, OPTIONAL, PING, PONG, TAIL, SHUTDOWN, Skipped, TRAILERS, equal, expect, frame,
    request_frame, trailers_frame,
)

FIELDS = [("x-sum", "17"), ("x-last", "caf\xe9: a, b"), ("x-sum", "18"), ("x-empty", "")]
SEEN = "x-empty: \nx-last: caf\xe9: a, b\nx-sum: 17, 18\n"
# What may differ: chunks are how such a body comes to most servers, and some interfaces have trailers behind chunks only.
FRAMING = ("content-length", "transfer-encoding")
BYTES_MAX, FIELDS_MAX = 8190, 32


def _seen(answer, size, fields=SEEN):
    equal(answer.status, 200, "status")
    equal(answer.body.decode("latin-1"), f"{size}\n{fields}", "bytes of the body, and trailers")


def _need_trailers(worker):
    """`welcome`, for cases about an application that sees them."""
    worker.welcome()
    _seen(worker.ask("/request-trailers", method="POST", body=b"abc", trailers=FIELDS)[0], 3)


def a_request_with_trailers_is_answered(worker):
    """Also by those that know nothing of them."""
    worker.welcome()
    client = worker.client()
    for options in ({"method": "POST", "body": b"abc"}, {"method": "POST"}, {}, {"method": "POST", "body": b"z" * 100_000}):
        answer, done, _ = worker.ask("/bytes/5", client, trailers=FIELDS, **options)
        equal((answer.status, answer.body, done.flags), (200, b"xxxxx", CLEAN), "answer and DONE")
        equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")
    expect(client.is_quiet(), "more than the responses")


def a_request_with_trailers_is_answered_as_one_without(worker):
    worker.welcome()
    for options in ({"method": "POST", "body": b"abc"}, {"method": "POST"}, {}):
        seen = [json.loads(worker.ask("/echo", fields=[("x-a", "1")], **options, **more)[0].body)
                for more in ({}, {"trailers": FIELDS})]
        for one in seen:
            for name in FRAMING:
                one["headers"].pop(name, None)
        equal(seen[1], seen[0], "the request with trailers")


def trailers_are_no_fields_of_the_head(worker):
    worker.welcome()
    answer, _, _ = worker.ask("/echo", method="POST", body=b"abc", fields=[("x-sum", "1")], trailers=FIELDS)
    headers = json.loads(answer.body)["headers"]
    equal((headers["x-sum"], "x-last" in headers), ("1", False), "fields of the head")


def trailers_of_a_request_reach_its_application(worker):
    _need_trailers(worker)
    client = worker.client()
    for body in (b"", b"x", bytes(range(256)) * 300):
        answer, done, _ = worker.ask("/request-trailers", client, method="POST", body=body, trailers=FIELDS)
        equal(done.flags, CLEAN, "flags of DONE")
        _seen(answer, len(body))
    # No length of 0 is stated of these.
    _seen(worker.ask("/request-trailers", client, trailers=FIELDS)[0], 0)
    _seen(worker.ask("/request-trailers", client, trailers=FIELDS, flags=0)[0], 0)


def as_many_trailers_as_there_may_be_are_taken(worker):
    _need_trailers(worker)
    many = [(f"x-{number:02}", "y") for number in range(FIELDS_MAX)]
    long = [("x", "y" * (BYTES_MAX - len("x: \r\n")))]
    for fields in (many, long):
        lines = "".join(f"{name}: {value}\n" for name, value in fields)
        _seen(worker.ask("/request-trailers", method="PUT", body=b"abc", trailers=fields)[0], 3, lines)


def trailers_come_behind_a_body_in_a_file(worker):
    worker.need_files()
    for size in (5_000_000, 1, 0):
        with tempfile.TemporaryFile() as spool:
            spool.write(b"z" * size)
            spool.flush()
            options = {"method": "POST", "body_file": size, "descriptors": [spool.fileno()]}
            answer, done, _ = worker.ask("/request-trailers", trailers=FIELDS, **options)
            equal(done.flags, CLEAN, "flags of DONE")
            _seen(answer, size)
            _seen(worker.ask("/request-trailers", **options)[0], size, "")


def trailers_come_behind_a_body_on_the_response_descriptor(worker):
    worker.welcome()
    if not worker.sockets_only:
        raise Skipped("it takes bodies in files")
    for number, (size, fields) in enumerate([(5_000_000, FIELDS), (1, FIELDS), (0, FIELDS), (1000, None)]):
        near, far = socket.socketpair()
        far.setblocking(False)
        near.settimeout(60)
        options = {"method": "POST", "body_stream": size, "descriptors": 1, **({"trailers": fields} if fields else {})}
        worker.send(request_frame(0x8000_0000 + number, number, "/request-trailers", **options), [far.fileno()])
        far.close()
        with near:
            near.sendall(b"z" * size)
            equal(worker.done().flags, CLEAN, "flags of DONE")
            body = near.recv(65536).partition(b"\r\n\r\n")[2].decode("latin-1")
            equal(body, f"{size}\n{SEEN if fields else ''}", "bytes of the body, and trailers")
            worker.send(frame(FORGET, connection=0x8000_0000 + number))
            equal(near.recv(1), b"", "what comes after FORGET")


def trailers_do_not_leak_into_another_request(worker):
    _need_trailers(worker)
    client, other = worker.client(), worker.client()
    for who in (client, other, client):
        _seen(worker.ask("/request-trailers", client, method="POST", body=b"abc", trailers=[("x-secret", "1")])[0], 3,
              "x-secret: 1\n")
        for body in (b"", b"abcd"):
            _seen(worker.ask("/request-trailers", who, method="POST", body=body)[0], len(body), "")
        _seen(worker.ask("/request-trailers", who, method="POST", body=b"ab", trailers=FIELDS)[0], 2)


def trailers_of_a_body_that_nobody_reads_do_not_leak(worker):
    worker.welcome()
    client = worker.client()
    for body in (b"", b"abc", b"z" * 300_000):
        equal(worker.ask("/bytes/5", client, method="POST", body=body, trailers=[("x-secret", "1")])[0].body, b"xxxxx", "body")
        _seen(worker.ask("/request-trailers", client, method="POST", body=b"abcd")[0], 4, "")


def trailers_stand_in_line_with_other_frames(worker):
    """One message: two requests of one connection, and one of another, of which the second has none."""
    _need_trailers(worker)
    first, second = worker.client(), worker.client()
    options = {"target": "/request-trailers", "method": "POST", "body": b"abc"}
    data = frame(PING, request=4) + request_frame(7, 1, descriptors=1, trailers=FIELDS, **options)
    data += request_frame(7, 2, **options) + frame(PING, request=5) + frame(60, b"future", OPTIONAL)
    data += request_frame(8, 3, descriptors=1, trailers=[("x-c", "3")], **options)
    data += frame(CANCEL, connection=9, request=9) + request_frame(7, 4, trailers=[("x-d", "4")], **options)
    worker.send(data, [first.far.fileno(), second.far.fileno()])
    for _ in range(4 + 2):
        kind = TAIL
        while kind == TAIL:
            kind, flags, _, request, _ = worker.read_frame()
        expect(kind == PONG or flags == CLEAN, f"a frame of kind {kind} with flags {flags} about {request}")
    for fields in (SEEN, "", "x-d: 4\n"):
        _seen(first.answer(), 3, fields)
    _seen(second.answer(), 3, "x-c: 3\n")


def trailers_may_be_split_at_any_byte(worker):
    """Each piece is read before the next one comes."""
    worker.welcome()
    worker.wants_404 = True
    client = worker.client()
    fields = [("x-a", "1"), ("x-b", "2")]
    behind = request_frame(7, 1, "/request-trailers", method="POST", body=b"abc")
    whole = trailers_frame(7, 1, fields) + behind
    worker.send(request_frame(7, 0, "/bytes/1", descriptors=1), [client.far.fileno()])
    worker.done(), client.answer()
    for at in [*range(1, len(whole) - len(behind) + 20), len(whole) - 1]:
        worker.send(whole[:at])
        worker.await_reading()
        worker.send(whole[at:])
        worker.done()
        answer = client.answer()
        if answer.status != 404:
            _seen(answer, 3, "x-a: 1\nx-b: 2\n")
    for byte in whole:
        worker.send(bytes([byte]))
        worker.await_reading()
    worker.done()
    expect(client.answer().status in (200, 404), "status")
    expect(client.is_quiet(), "more than the responses")


def a_channel_may_end_behind_trailers(worker):
    worker.welcome()
    worker.ask("/bytes/1")
    worker.send(trailers_frame(7, 1, FIELDS))
    worker.sock.shutdown(socket.SHUT_WR)
    expect(worker.at_end(), "more frames, or the channel stays open")
    equal(worker.exit_status(), 0, "exit status")


def _with(payload, flags=OPTIONAL, descriptors=0, numbers=(1001, 1)):
    return frame(TRAILERS, payload, flags, descriptors, *numbers)


ONE = trailers_frame(1001, 1, [("x-a", "1")])
BEHIND = request_frame(1001, 1, "/bytes/1")
# What may stand in no frame of this kind, or not behind it. Connection 1001 is known by then.
REFUSED = {
    "empty": _with(b"") + BEHIND,
    "too_long": trailers_frame(1001, 1, [("x", "y" * (BYTES_MAX - len("x: \r\n") + 1))]) + BEHIND,
    "too_many": trailers_frame(1001, 1, [("x", "y")] * (FIELDS_MAX + 1)) + BEHIND,
    "without_a_line_end": _with(b"x-a: 1") + BEHIND,
    "ended_by_a_line_feed_alone": _with(b"x-a: 1\n") + BEHIND,
    "with_an_empty_line": _with(b"x-a: 1\r\n\r\n") + BEHIND,
    "without_a_colon": _with(b"x-a 1\r\n") + BEHIND,
    "without_a_space": _with(b"x-a:1\r\n") + BEHIND,
    "without_a_name": _with(b": 1\r\n") + BEHIND,
    "with_a_name_in_upper_case": _with(b"X-A: 1\r\n") + BEHIND,
    "with_a_name_that_is_no_token": _with(b"x a: 1\r\n") + BEHIND,
    "with_a_nul": _with(b"x-a: 1\0\r\n") + BEHIND,
    "with_a_carriage_return": _with(b"x-a: 1\r2\r\n") + BEHIND,
    "with_unknown_flags": _with(b"x-a: 1\r\n", flags=OPTIONAL | 1) + BEHIND,
    "with_a_descriptor": _with(b"x-a: 1\r\n", descriptors=1) + BEHIND,
    "behind_trailers": ONE + ONE + BEHIND,
    "before_ping": ONE + frame(PING, request=1),
    "before_forget": ONE + frame(FORGET, connection=1001),
    "before_shutdown": ONE + frame(SHUTDOWN),
    "before_a_frame_that_may_be_skipped": ONE + frame(60, b"", OPTIONAL),
    "of_another_request": ONE + request_frame(1001, 2, "/bytes/1"),
    "of_another_connection": trailers_frame(1002, 1, [("x-a", "1")]) + BEHIND,
    "of_a_request_that_may_detach": ONE + request_frame(1001, 1, "/bytes/1", flags=KEEP | MAY_DETACH),
}


def _refuses(data):
    """A case: after `data` an adapter whose applications see trailers must say why, and exit with another status than 0."""

    def case(worker):
        _need_trailers(worker)
        worker.send(data)
        status = worker.exit_status()
        expect(status > 0, f"exit status {status} after trailers that are not allowed")
        expect(worker.errors().strip(), "no word on standard error")

    return case


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__code__", None) and case.__module__ == __name__ and not name.startswith("_")
}
CASES.update({f"trailers_{name}_are_refused": _refuses(data) for name, data in REFUSED.items()})
