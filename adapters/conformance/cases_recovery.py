"""Cases about the end of the server's worker process: the channel ends without SHUTDOWN, and another one comes."""

import signal

from kit import PING, PONG, REQUEST, SHUTDOWN, Skipped, equal, expect, frame, request_frame, trailers_frame

SLOW_MS = 200


def needs_recovery(case):
    """A case for adapters that recover; they are given a recovery socket."""

    def recovering(worker):
        worker.hello = worker.welcome()
        if not worker.recovers:
            raise Skipped("it does not recover")
        case(worker)

    recovering.recovery = True
    recovering.__name__ = case.__name__
    return recovering


def again(worker):
    """Reads HELLO on a new channel: the worker says what it said before."""
    equal(worker.welcome(), worker.hello, "the second HELLO")
    expect(worker.recovers, "the second HELLO has no RECOVERS")


@needs_recovery
def a_lost_channel_is_followed_by_another(worker):
    for _ in range(3):
        answer, _, client = worker.ask("/bytes/5")
        equal((answer.status, answer.body), (200, b"xxxxx"), "answer")
        worker.drop(client)
        worker.lose()
        worker.renew()
        again(worker)
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer on the last channel")


@needs_recovery
def the_connections_of_a_lost_channel_are_closed(worker):
    clients = [worker.client(relay) for relay in (False, True) * 3]
    for number, client in enumerate(clients):
        worker.send(request_frame(number, number, "/bytes/1", descriptors=1), [client.far.fileno()])
        worker.done_of(client)
        equal(client.answer().body, b"x", "body")
        client.far.close()
    worker.lose()
    for client in clients:
        equal(client.rest(), b"", "what comes of a connection whose channel is lost")
    worker.renew()
    again(worker)
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")


@needs_recovery
def half_a_frame_is_dropped_with_its_channel(worker):
    client = worker.client()
    worker.send(request_frame(7, 1, "/bytes/1", descriptors=1)[:20], [client.far.fileno()])
    client.far.close()
    worker.lose()
    equal(client.rest(), b"", "what comes of a connection whose request was not complete")
    worker.renew()
    again(worker)
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")


@needs_recovery
def trailers_are_dropped_with_their_channel(worker):
    worker.send(trailers_frame(7, 1, [("x-secret", "1")]))
    worker.await_reading()
    worker.lose()
    worker.renew()
    again(worker)
    client = worker.client()
    worker.send(request_frame(7, 1, "/request-trailers", method="POST", body=b"abc", descriptors=1), [client.far.fileno()])
    worker.done()
    answer = client.answer()
    equal((answer.status, answer.body), (200, b"3\n"), "the request with the same numbers")


@needs_recovery
def a_number_is_another_connection_on_the_new_channel(worker):
    old, new = worker.client(), worker.client()
    worker.send(request_frame(7, 1, f"/slow/{SLOW_MS}", descriptors=1), [old.far.fileno()])
    worker.lose()
    worker.renew()
    again(worker)
    worker.send(request_frame(7, 1, "/bytes/3", descriptors=1), [new.far.fileno()])
    done = worker.done_of(new)
    equal((done.connection, done.request, done.body_bytes), (7, 1, 3), "the first report on the new channel")
    equal(new.answer().body, b"xxx", "answer on the new channel")
    # Whatever becomes of the request before, it becomes of its own connection.
    old.far.close()
    expect(len(old.rest().split(b"HTTP/1.1 200 ")) <= 2, "more than one response on the old connection")
    worker.send(frame(PING, request=5))
    equal(worker.read_frame()[0], PONG, "kind: nothing is said of requests of the lost channel")
    expect(new.is_quiet(), "more than one response, or a closed connection")


@needs_recovery
def requests_behind_one_that_runs_are_not_reported(worker):
    client = worker.client()
    data = request_frame(7, 1, f"/slow/{SLOW_MS}", descriptors=1)
    worker.send(data + b"".join(request_frame(7, n, "/bytes/1") for n in range(2, 10)), [client.far.fileno()])
    worker.lose()
    worker.renew()
    again(worker)
    worker.send(frame(PING, request=5))
    kind, _, _, request, _ = worker.read_frame()
    equal((kind, request), (PONG, 5), "the first frame after HELLO")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")


@needs_recovery
def a_client_that_takes_nothing_holds_nobody_up(worker):
    slow = worker.client()
    worker.send(request_frame(7, 1, "/chunks/2000/10000", descriptors=1), [slow.far.fileno()])
    worker.send(request_frame(8, 2, "/bytes/1", descriptors=1), [worker.client().far.fileno()])
    worker.lose()
    worker.renew()
    again(worker)
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")


@needs_recovery
def a_channel_that_is_lost_before_it_is_taken_is_skipped(worker):
    worker.lose()
    for _ in range(3):
        worker.renew()
        worker.lose()
    worker.renew()
    again(worker)
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")


@needs_recovery
def without_another_channel_it_exits(worker):
    worker.recovery.close()
    # Alone, that says nothing.
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "answer")
    worker.lose()
    equal(worker.exit_status(), 0, "exit status")


@needs_recovery
def it_exits_when_the_recovery_socket_ends_while_it_waits(worker):
    worker.lose()
    worker.recovery.close()
    equal(worker.exit_status(), 0, "exit status")


@needs_recovery
def sigterm_ends_it_while_it_waits(worker):
    client = worker.client()
    worker.send(request_frame(7, 1, "/bytes/1", descriptors=1), [client.far.fileno()])
    worker.done_of(client)
    client.answer()
    client.far.close()
    worker.lose()
    # It has noticed.
    equal(client.rest(), b"", "rest of the connection")
    worker.signal(signal.SIGTERM)
    equal(worker.exit_status(), 0, "exit status")


@needs_recovery
def sigterm_means_the_end_also_on_a_later_channel(worker):
    worker.lose()
    worker.renew()
    again(worker)
    worker.signal(signal.SIGTERM)
    expect(worker.at_end(), "the channel lives")
    equal(worker.exit_status(), 0, "exit status")


@needs_recovery
def shutdown_means_the_end(worker):
    client = worker.client()
    data = request_frame(7, 1, "/bytes/1", descriptors=1) + frame(SHUTDOWN)
    worker.send(data, [client.far.fileno()])
    worker.done_of(client)
    equal(client.answer().body, b"x", "body")
    worker.lose()
    equal(worker.exit_status(), 0, "exit status")


@needs_recovery
def a_violation_is_the_end_also_on_a_later_channel(worker):
    worker.lose()
    worker.renew()
    again(worker)
    worker.send(frame(REQUEST))
    expect(worker.exit_status() != 0, "exit status 0 after a violation")


CASES = {
    name: case for name, case in list(globals().items()) if getattr(case, "recovery", False)
}
