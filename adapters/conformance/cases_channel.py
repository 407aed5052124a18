"""Cases about the channel: frames, descriptors, reports, the end."""

import os
import random
import signal
import socket
import struct

from kit import (
    CANCEL, CLEAN, DONE, FORGET, KEEP, OPTIONAL, PAYLOAD_BYTES_MAX, PING, PONG, REQUEST, SHUTDOWN,
    SOFT_LIMIT_OF_FILES, Skipped,
    equal, expect, frame, request_frame,
)


def hello_says_who_it_is(worker):
    lowest, highest, capacity, name = worker.welcome()
    expect(1 <= lowest <= 1 <= highest, f"versions {lowest} to {highest} do not include 1")
    expect(1 <= capacity <= 65536, f"capacity {capacity}")
    expect(name and name.isprintable(), f"name {name!r}")


def a_request_is_answered_and_reported(worker):
    worker.welcome()
    answer, done, client = worker.ask("/bytes/5")
    equal((answer.status, answer.body), (200, b"xxxxx"), "answer")
    equal((done.flags, done.body_bytes), (CLEAN, 5), "flags and body bytes in DONE")
    expect(client.is_quiet(), "more than one response, or a closed connection")


def requests_in_one_message_are_all_answered(worker):
    worker.welcome()
    clients = [worker.client() for _ in range(100)]
    data = b"".join(request_frame(n, 500 + n, f"/bytes/{n}", descriptors=1) for n in range(100))
    worker.send(data, [client.far.fileno() for client in clients])
    reported = {}
    for _ in clients:
        done = worker.done()
        reported[done.connection] = (done.request, done.flags, done.body_bytes)
    for n, client in enumerate(clients):
        equal(client.answer().body, b"x" * n, f"body on connection {n}")
        equal(reported.get(n), (500 + n, CLEAN, n), f"report of connection {n}")


def as_many_descriptors_as_the_kernel_passes_are_taken(worker):
    worker.welcome()
    clients = [worker.client() for _ in range(253)]
    data = b"".join(request_frame(n, n, "/bytes/1", descriptors=1) for n in range(253))
    worker.send(data, [client.far.fileno() for client in clients])
    equal(sorted(worker.done().connection for _ in clients), list(range(253)), "connections reported")
    for client in clients:
        equal(client.answer().body, b"x", "body")


def descriptors_may_come_before_their_frames(worker):
    worker.welcome()
    clients = [worker.client() for _ in range(3)]
    frames = [request_frame(n, n, f"/bytes/{n}", descriptors=1) for n in range(3)]
    worker.send(frames[0][:3], [client.far.fileno() for client in clients])
    worker.send(frames[0][3:] + frame(PING, request=9))
    # A worker that does several things at a time may answer PING first.
    equal(sorted(worker.read_frame()[0] for _ in range(2)), [DONE, PONG], "kinds")
    worker.send(frames[1] + frames[2])
    worker.done(), worker.done()
    for n in (0, 1, 2):
        equal(clients[n].answer().body, b"x" * n, f"body on connection {n}")


def a_descriptor_is_kept_for_the_connection(worker):
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/bytes/1", descriptors=1), [client.far.fileno()])
    for number in range(2, 6):
        worker.done()
        equal(client.answer().body, b"x", "body")
        worker.send(request_frame(7, number, "/bytes/1"))
    equal(worker.done().request, 5, "number of the request")


def several_requests_of_one_connection_are_answered_in_order(worker):
    worker.welcome()
    client = worker.client()
    data = b"".join(request_frame(7, n, f"/bytes/{n}", descriptors=int(n == 1)) for n in range(1, 21))
    worker.send(data, [client.far.fileno()])
    for n in range(1, 21):
        equal(client.answer().body, b"x" * n, "body")
        equal(worker.done().request, n, "number of the request")


def more_connections_than_the_soft_limit_of_files_are_kept(worker):
    worker.welcome()
    clients = [worker.client() for _ in range(2 * SOFT_LIMIT_OF_FILES)]
    for number, client in enumerate(clients):
        worker.send(request_frame(number, number, "/bytes/1", descriptors=1), [client.far.fileno()])
        equal(worker.done().connection, number, "connection")
    for number, client in enumerate(clients):
        worker.send(request_frame(number, number, "/bytes/1"))
        equal(client.answer().body + client.answer().body, b"xx", "bodies")


def a_new_descriptor_replaces_the_kept_one(worker):
    worker.welcome()
    old, new = worker.client(), worker.client()
    for number, client in ((1, old), (2, new)):
        worker.send(request_frame(7, number, "/bytes/1", descriptors=1), [client.far.fileno()])
        equal(client.answer().body, b"x", "body")
        worker.done()
    old.far.close()
    equal(old.rest(), b"", "rest of the replaced connection")
    expect(new.is_quiet(), "the new connection was closed")


def forget_closes_the_descriptor(worker):
    worker.welcome()
    client, other = worker.client(), worker.client()
    data = request_frame(7, 1, "/bytes/1", descriptors=1) + request_frame(8, 2, "/bytes/1", descriptors=1)
    worker.send(data, [client.far.fileno(), other.far.fileno()])
    worker.done(), worker.done(), client.answer(), other.answer()
    client.far.close()
    worker.send(frame(PING, request=3))
    worker.read_frame()
    expect(client.is_quiet(), "the descriptor was closed before FORGET")
    worker.send(frame(FORGET, connection=7))
    equal(client.rest(), b"", "what came on the forgotten connection")
    expect(other.is_quiet(), "another connection was closed, too")


def a_number_can_be_used_again_after_forget(worker):
    worker.welcome()
    first, second = worker.client(), worker.client()
    worker.send(request_frame(7, 1, "/bytes/1", descriptors=1), [first.far.fileno()])
    worker.done()
    worker.send(frame(FORGET, connection=7) + request_frame(7, 2, "/bytes/2", descriptors=1), [second.far.fileno()])
    worker.done()
    equal((first.answer().body, second.answer().body), (b"x", b"xx"), "bodies")


def forget_of_an_unknown_connection_is_ignored(worker):
    worker.welcome()
    worker.send(frame(FORGET, connection=99))
    equal(worker.ask("/bytes/1")[0].status, 200, "status")


def forget_right_after_a_request_does_not_cut_its_response(worker):
    worker.welcome()
    client = worker.client()
    data = request_frame(7, 1, "/bytes/300000", descriptors=1) + frame(FORGET, connection=7)
    worker.send(data, [client.far.fileno()])
    equal(len(client.answer().body), 300000, "bytes of the body")
    equal(worker.done().flags, CLEAN, "flags of DONE")


def frames_may_be_split_at_any_byte(worker):
    worker.welcome()
    client = worker.client()
    data = request_frame(7, 1, "/echo", method="POST", body=b"abc", descriptors=1)
    worker.send(data[:1], [client.far.fileno()])
    for at in range(1, len(data)):
        worker.send(data[at : at + 1])
    equal(worker.done().flags, CLEAN, "flags of DONE")
    equal(client.answer().status, 200, "status")


def splits_at_random_change_nothing(worker):
    worker.welcome()
    choose = random.Random(20)
    clients = [worker.client() for _ in range(10)]
    pieces = []
    for n, client in enumerate(clients):
        body = choose.randbytes(choose.randrange(3000)) if hasattr(choose, "randbytes") else b"z" * 999
        data = request_frame(n, n, "/echo", method="POST", body=body, descriptors=1)
        data += frame(PING, request=n) + request_frame(n, n + 100, f"/bytes/{n}")
        cuts = sorted(choose.randrange(1, len(data)) for _ in range(8))
        for start, end in zip([0, *cuts], [*cuts, len(data)]):
            pieces.append((data[start:end], [client.far.fileno()] if start == 0 else []))
    for data, descriptors in pieces:
        if data:
            worker.send(data, descriptors)
    kinds = [worker.read_frame()[0] for _ in range(30)]
    equal((kinds.count(DONE), kinds.count(PONG)), (20, 10), "reports and pongs")
    for n, client in enumerate(clients):
        status = client.answer().status
        if status == 404:
            raise Skipped("the reference application answers 404")
        equal(status, 200, "status")
        equal(client.answer().body, b"x" * n, "body")


def ping_is_answered_with_its_number(worker):
    worker.welcome()
    worker.send(frame(PING, request=77) + frame(PING, request=0xFFFFFFFF))
    for wanted in (77, 0xFFFFFFFF):
        kind, flags, _, request, payload = worker.read_frame()
        equal((kind, flags, request, payload), (PONG, 0, wanted, b""), "PONG")


def frames_that_may_be_skipped_are_skipped(worker):
    worker.welcome()
    client, extra = worker.client(), worker.client()
    data = frame(60, b"future", OPTIONAL, 2) + frame(CANCEL, connection=7, request=1)
    data += request_frame(7, 1, "/bytes/1", descriptors=1)
    worker.send(data, [extra.far.fileno(), extra.far.fileno(), client.far.fileno()])
    equal(client.answer().body, b"x", "body on the right descriptor")
    worker.done()
    extra.far.close()
    equal(extra.rest(), b"", "what came on a skipped descriptor")


def the_socket_is_never_read(worker):
    worker.welcome()
    client = worker.client()
    client.near.sendall(b"GET /next HTTP/1.1\r\n\r\n")
    worker.ask("/bytes/5", client)
    equal(client.far.recv(100), b"GET /next HTTP/1.1\r\n\r\n", "bytes that the client sent")


def the_socket_stays_non_blocking_and_open(worker):
    worker.welcome()
    _, _, client = worker.ask("/bytes/5")
    expect(not os.get_blocking(client.far.fileno()), "the worker changed O_NONBLOCK")
    client.far.send(b"more")
    equal(client.near.recv(10), b"more", "what Maitred sends afterwards")


def _ends_with(worker, last, wanted_status=0):
    """Three requests, then `last`: all must be answered before the exit."""
    clients = [worker.client() for _ in range(3)]
    data = b"".join(request_frame(n, n, "/slow/20", descriptors=1) for n in range(3))
    worker.send(data, [client.far.fileno() for client in clients])
    last()
    for client in clients:
        equal(client.answer().body, b"slow", "body")
    equal(sorted(worker.done().request for _ in clients), [0, 1, 2], "requests reported")
    expect(worker.at_end(), "more frames, or the channel stays open")
    equal(worker.exit_status(), wanted_status, "exit status")


def end_of_file_finishes_and_exits(worker):
    worker.welcome()
    _ends_with(worker, lambda: worker.sock.shutdown(socket.SHUT_WR))


def end_of_file_inside_a_frame_is_an_end(worker):
    worker.welcome()
    partial = request_frame(9, 9, "/bytes/1")[:40]

    def last():
        worker.send(partial)
        worker.sock.shutdown(socket.SHUT_WR)

    _ends_with(worker, last)


def shutdown_finishes_and_exits(worker):
    worker.welcome()
    _ends_with(worker, lambda: worker.send(frame(SHUTDOWN)))


def sigterm_finishes_and_exits(worker):
    worker.welcome()
    _ends_with(worker, lambda: worker.signal(signal.SIGTERM))


def sigterm_ends_an_idle_worker(worker):
    worker.welcome()
    worker.ask("/bytes/1")
    worker.signal(signal.SIGTERM)
    expect(worker.at_end(), "more frames, or the channel stays open")
    equal(worker.exit_status(), 0, "exit status")


def sigint_is_ignored(worker):
    worker.welcome()
    worker.signal(signal.SIGINT)
    equal(worker.ask("/slow/20")[0].body, b"slow", "body")


def a_server_that_is_gone_ends_the_worker(worker):
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/slow/20", descriptors=1), [client.far.fileno()])
    worker.sock.close()
    equal(client.answer().body, b"slow", "body")
    equal(worker.exit_status(), 0, "exit status")


def _refuses(data):
    """A case: after `data` the worker must say why, and exit with another status than 0."""

    def case(worker):
        worker.welcome()
        worker.ask("/bytes/1")
        worker.send(data)
        status = worker.exit_status()
        expect(status > 0, f"exit status {status} after a frame that is not allowed")
        expect(worker.errors().strip(), "no word on standard error")

    return case


def the_first_frame_must_be_welcome(worker):
    worker.read_frame()
    worker.send(frame(PING))
    expect(worker.exit_status() > 0, "exit status 0")


def a_version_that_was_not_offered_is_refused(worker):
    _, highest = struct.unpack_from("<HH", worker.read_frame()[4])
    worker.send(frame(6, struct.pack("<HHI", highest + 1, 0, PAYLOAD_BYTES_MAX)))
    expect(worker.exit_status() > 0, "exit status 0")


REFUSED = {
    "unknown_kind_is_refused": frame(60, b"x"),
    "kind_of_the_other_side_is_refused": frame(DONE, b"\0" * 16),
    "noise_is_refused": bytes(random.Random(21).choices(range(128, 256), k=64)),
    "http_is_refused": b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "too_long_a_payload_is_refused": struct.pack("<IBBHII", PAYLOAD_BYTES_MAX + 1, REQUEST, 0, 0, 1, 1),
    "parts_that_do_not_add_up_are_refused": frame(REQUEST, struct.pack("<III", 1, 2, 3), KEEP, 0, 1001, 1),
    "an_unknown_connection_is_refused": request_frame(424242, 1),
    "a_descriptor_that_did_not_come_is_refused": request_frame(1001, 1, descriptors=1),
    "unknown_flags_are_refused": request_frame(1001, 1, flags=KEEP | 64),
    "a_second_welcome_is_refused": frame(6, struct.pack("<HHI", 1, 0, PAYLOAD_BYTES_MAX)),
}

CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__code__", None) and case.__module__ == __name__ and not name.startswith("_")
}
CASES.update({name: _refuses(data) for name, data in REFUSED.items()})
