"""Cases about requests and responses."""

import base64
import json
import socket
import struct

from kit import CLEAN, CLOSE, HTTP10, KEEP, Skipped, equal, expect, request_frame


def _echo(worker, target, **options):
    worker.welcome()
    answer, done, _ = worker.ask(target, **options)
    equal((answer.status, done.flags), (200, CLEAN), "status and flags")
    return json.loads(answer.body)


def a_request_arrives_as_it_was_sent(worker):
    fields = [("accept", "*/*"), ("x-latin", "caf\xe9"), ("content-type", "text/plain; x=y")]
    seen = _echo(worker, "/echo/a%20b%C3%A9/c?q=%20&r=?/", method="PUT", fields=fields, body=b"\0\xff\r\n")
    equal(seen["method"], "PUT", "method")
    equal(seen["path"].encode("latin-1"), "/echo/a bé/c".encode(), "path, decoded")
    equal(seen["query"], "q=%20&r=?/", "query, not decoded")
    equal(seen["scheme"], "http", "scheme")
    equal(seen["remote"], "192.0.2.7 4711", "address of the client")
    equal(seen["local"], "::1 8080", "address of the server")
    equal(seen["version"], "HTTP/1.1", "version")
    equal(base64.b64decode(seen["body"]), b"\0\xff\r\n", "body")
    headers = seen["headers"]
    equal(headers["host"], "example.com", "host")
    equal(headers["accept"], "*/*", "accept")
    equal(headers["x-latin"].encode("latin-1"), b"caf\xe9", "x-latin")
    equal(headers["content-type"], "text/plain; x=y", "content-type")
    equal(headers["content-length"], "4", "content-length")


def the_mount_is_apart_from_the_path(worker):
    seen = _echo(worker, "/app/echo/x", mount="/app")
    equal((seen["mount"], seen["path"]), ("/app", "/echo/x"), "mount and path")


def the_user_is_the_one_that_maitred_names(worker):
    says = {"user": "änn o=x", "auth_type": "Basic", "auth_type_of_later": "x"}
    lies = [("remote-user", "root"), ("auth-type", "x"), ("user", "root")]
    worker.welcome()
    for number, (said, wanted) in enumerate(((says, "änn o=x Basic"), ({}, ""), ({"user": "bob"}, "bob "), ({}, ""))):
        answer, done, _ = worker.ask("/user", says=said, fields=lies)
        equal((answer.status, done.flags), (200, CLEAN), f"status and flags of request {number}")
        equal(answer.body.decode(), wanted, f"the user of request {number}")


def repeated_fields_are_joined(worker):
    fields = [("x-a", "1"), ("cookie", "a=1"), ("x-a", "2"), ("cookie", "b=2")]
    headers = _echo(worker, "/echo", fields=fields)["headers"]
    equal((headers["x-a"], headers["cookie"]), ("1, 2", "a=1; b=2"), "joined fields")


def a_field_with_an_underscore_cannot_pose_as_another(worker):
    headers = _echo(worker, "/echo", fields=[("x-user", "guest"), ("x_user", "admin")])["headers"]
    equal(headers["x-user"], "guest", "x-user")


def the_version_of_the_client_is_seen(worker):
    equal(_echo(worker, "/echo", flags=KEEP | HTTP10)["version"], "HTTP/1.0", "version")


def requests_do_not_leak_into_one_another(worker):
    worker.welcome()
    worker.ask("/echo?a=1", fields=[("x-secret", "1")], method="POST", body=b"secret")
    seen = json.loads(worker.ask("/echo")[0].body)
    equal((seen["query"], seen["body"]), ("", ""), "query and body")
    expect("x-secret" not in seen["headers"] and "content-length" not in seen["headers"], "fields of another request")


def a_large_body_arrives_whole(worker):
    body = bytes(range(256)) * 5000
    equal(base64.b64decode(_echo(worker, "/echo", method="POST", body=body)["body"]), body, "body")


def _framing(worker, target, flags, method="GET"):
    worker.welcome()
    answer, done, _ = worker.ask(target, flags=flags, method=method)
    return answer, done


def a_stated_length_is_used(worker):
    answer, done = _framing(worker, "/bytes/1000", KEEP)
    equal((answer.how, len(answer.body), answer.one("connection")), ("length", 1000, None), "framing")
    equal((done.flags, done.body_bytes), (CLEAN, 1000), "DONE")


def an_unknown_length_is_chunked(worker):
    answer, done = _framing(worker, "/chunks/10/1000", KEEP)
    equal((answer.how, answer.body, answer.one("connection")), ("chunked", b"y" * 10000, None), "framing")
    equal((done.flags, done.body_bytes), (CLEAN, 10000), "DONE")


def large_chunks_are_chunked(worker):
    answer, done = _framing(worker, "/chunks/3/100000", KEEP)
    equal((answer.how, len(answer.body)), ("chunked", 300000), "framing")
    equal((done.flags, done.body_bytes), (CLEAN, 300000), "DONE")


def a_connection_that_ends_says_close(worker):
    worker.welcome()
    for target in ("/bytes/10", "/chunks/2/10"):
        answer, done, _ = worker.ask(target, flags=0)
        equal((answer.status, answer.one("connection"), done.flags), (200, "close", CLEAN), "answer and DONE")


def http10_is_told_that_the_connection_is_kept(worker):
    answer, done = _framing(worker, "/bytes/10", KEEP | HTTP10)
    equal((answer.how, answer.one("connection")), ("length", "keep-alive"), "framing")
    equal(done.flags, CLEAN, "flags of DONE")


def http10_gets_no_chunks(worker):
    worker.welcome()
    for flags in (HTTP10, HTTP10 | KEEP):
        answer, done, _ = worker.ask("/chunks/3/10", flags=flags)
        equal((answer.how, answer.body), ("close", b"y" * 30), "framing")
        expect(answer.one("connection") in (None, "close"), "a kept connection without framing")
        equal((done.flags, done.body_bytes), (CLOSE, 30), "DONE")


def head_has_no_body(worker):
    worker.welcome()
    for target, length in (("/bytes/1000", "1000"), ("/echo", None), ("/chunks/3/10", None)):
        client = worker.client()
        answer, done, _ = worker.ask(target, client, method="HEAD")
        equal((answer.status, done.flags, done.body_bytes), (200, CLEAN, 0), f"HEAD {target}")
        expect(length in (None, answer.one("content-length")), "Content-Length differs from that of GET")
        answer, _, _ = worker.ask("/bytes/3", client)
        equal(answer.body, b"xxx", "body of the next response")


def statuses_without_a_body_have_none(worker):
    worker.welcome()
    for status in (204, 304):
        client = worker.client()
        answer, done, _ = worker.ask(f"/status/{status}", client)
        equal((answer.status, answer.all("transfer-encoding")), (status, []), "answer")
        expect(status != 204 or answer.one("content-length") is None, "204 with Content-Length")
        equal((done.flags, done.body_bytes), (CLEAN, 0), "DONE")
        equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def other_empty_responses_say_length_0(worker):
    worker.welcome()
    worker.wants_404 = True
    for status in (200, 404, 500):
        answer, done, _ = worker.ask(f"/status/{status}")
        equal((answer.status, answer.one("content-length")), (status, "0"), "answer")
        equal(done.flags, CLEAN, "flags of DONE")


def an_error_is_a_500(worker):
    worker.welcome()
    answer, done, client = worker.ask("/error")
    equal((answer.status, done.status), (500, 500), "status")
    expect(b"asked for" not in answer.body, "the client sees what went wrong inside")
    equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def a_late_error_breaks_the_response(worker):
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/error-late", descriptors=1), [client.far.fileno()])
    done = worker.done()
    equal((done.flags, done.status), (0, 200), "flags and status in DONE")
    client.far.shutdown(socket.SHUT_RDWR)
    data = client.rest()
    expect(b"first" in data and not data.endswith(b"0\r\n\r\n"), "the response looks complete")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_body_that_is_too_short_breaks_the_response(worker):
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/short", descriptors=1), [client.far.fileno()])
    done = worker.done()
    expect(done.flags == 0 or done.status == 500, "a response that is too short is said to be complete")


def a_body_that_is_too_long_does_not_reach_the_next_response(worker):
    worker.welcome()
    client = worker.client()
    worker.send(request_frame(7, 1, "/long", descriptors=1), [client.far.fileno()])
    done = worker.done()
    client.far.shutdown(socket.SHUT_RDWR)
    data = client.rest()
    if b" 500 " not in data.split(b"\r\n")[0]:
        expect(data.endswith(b"\r\n\r\n12345"), f"more than was stated: {data!r}")
    expect(done.flags in (0, CLEAN), "flags of DONE")


def line_breaks_do_not_get_into_the_head(worker):
    worker.welcome()
    answer, _, _ = worker.ask("/inject")
    equal(answer.all("injected"), [], "injected fields")


def _hop(worker, flags, connection):
    answer, done, client = worker.ask("/hop", flags=flags)
    equal((answer.status, answer.body, done.status), (200, b"hop", 200), "status, body and DONE")
    equal(answer.all("keep-alive") + answer.all("proxy-connection"), [], "fields of the connection")
    # In some interfaces Transfer-Encoding is how chunks are asked for; then they have to be some.
    expect(answer.how == "length" or answer.how == ("close" if flags & HTTP10 else "chunked"), f"framing: {answer.how}")
    equal(answer.one("connection"), "close" if answer.how == "close" else connection, "Connection")
    if done.flags == CLEAN and flags & KEEP:
        equal(worker.ask("/bytes/3", client)[0].body, b"xxx", "body of the next response")


def fields_of_the_connection_are_dropped(worker):
    worker.welcome()
    _hop(worker, KEEP, None)
    _hop(worker, 0, "close")
    _hop(worker, KEEP | HTTP10, "keep-alive")
    _hop(worker, HTTP10, "close")


def upgrade_in_a_426_is_the_applications(worker):
    worker.welcome()
    for flags, connection in ((KEEP, ["upgrade"]), (0, ["close", "upgrade"])):
        answer, done, _ = worker.ask("/426", flags=flags)
        equal((answer.status, done.flags, answer.all("upgrade")), (426, CLEAN, ["websocket"]), "status, DONE and Upgrade")
        options = ",".join(answer.all("connection")).lower().split(",")
        equal(sorted(option.strip() for option in options), connection, "Connection")


def early_hints_come_before_the_response(worker):
    worker.welcome()
    client = worker.client()
    for number in range(1, 3):
        worker.send(
            request_frame(7, number, "/early-hints", says={"early_hints": 1}, descriptors=int(number == 1)),
            [client.far.fileno()][number - 1 :],
        )
        done = worker.done()
        hint = client.informational()
        equal((hint.status, hint.all("link")), (103, ["</style.css>; rel=preload; as=style"]), "hint")
        answer = client.answer()
        equal((answer.status, answer.body), (200, b"hinted"), "the response behind it")
        equal((done.status, done.flags, done.body_bytes), (200, CLEAN, 6), "DONE, which counts no hints")


def early_hints_are_dropped_where_the_client_may_not_have_them(worker):
    worker.welcome()
    for flags in (KEEP, KEEP | HTTP10):
        answer, done, client = worker.ask("/early-hints", flags=flags)
        equal((answer.status, answer.body, done.body_bytes), (200, b"hinted", 6), "the response")
        expect(client.is_quiet(), "something behind the response")


def early_hints_that_the_socket_does_not_take_are_in_the_tail(worker):
    worker.welcome()
    client = worker.client()
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    total = client.fill(b"")
    worker.send(request_frame(7, 1, "/early-hints", says={"early_hints": 1}, descriptors=1), [client.far.fileno()])
    if worker.capacity == 1:
        # There is no reader meanwhile.
        done = worker.done()
        client.deliver(done.tail)
    else:
        done = worker.done_of(client)
    client.read_exactly(total)
    equal(client.informational().status, 103, "hint")
    equal((client.answer().body, done.flags), (b"hinted", CLEAN), "the response behind it")


def no_server_is_named_where_none_is_wanted(worker):
    """Only by what the meta part says: not by fields, which are a client's, and not by the name of a user."""
    worker.welcome()
    lies = [("server-header", "0"), ("x-server-header", "server_header=0")]
    says = (
        ({"server_header": 0}, True),
        ({}, False),
        ({"user": "server_header=0", "auth_type": "Basic"}, False),
        ({"user": "b", "auth_type": "Basic", "server_header": 0}, True),
        ({"server_header": 1}, False),
    )
    own = worker.ask("/bytes/3")[0].one("server")
    if own != "maitred":
        raise Skipped(f"it is a server of its own, which names itself: {own}")
    client = worker.client()
    for target in ("/bytes/3", "/chunks/2/3", "/status/204", "/error", "/file/200000"):
        for said, anonymous in says:
            answer, _, _ = worker.ask(target, client, says=said, fields=lies)
            equal(answer.all("server"), [] if anonymous else [own], f"Server of {target}, where the meta part has {said}")


def trailers_follow_the_last_chunk(worker):
    worker.welcome()
    client = worker.client()
    for _ in range(2):
        answer, done, _ = worker.ask("/trailers", client, says={"trailers": 1})
        equal((answer.status, answer.how, answer.body), (200, "chunked", b"body"), "response")
        equal(answer.trailers, [("x-sum", "4")], "trailers")
        equal(answer.all("trailer"), ["X-Sum"], "Trailer")
        equal((done.flags, done.body_bytes), (CLEAN, 4), "DONE, which does not count them")


def trailers_are_dropped_where_the_client_does_not_get_them(worker):
    worker.welcome()
    said = {"trailers": 1}
    for options in ({}, {"says": {"trailers": 0}}, {"flags": HTTP10 | KEEP, "says": said}, {"method": "HEAD", "says": said}):
        answer, done, client = worker.ask("/trailers", **options)
        equal((answer.status, answer.body), (200, b"" if "method" in options else b"body"), "response")
        equal((answer.trailers, answer.all("trailer"), answer.all("x-sum")), ([], [], []), "trailers and Trailer")
        equal(done.flags, CLOSE if answer.how == "close" else CLEAN, "flags of DONE")
        if done.flags == CLEAN:
            expect(client.is_quiet(), "something behind the response")


def the_time_that_it_took_is_reported(worker):
    worker.welcome()
    done = worker.ask("/slow/50")[1]
    expect(50_000 <= done.service_us < 5_000_000, f"{done.service_us} microseconds for 50 ms")


def a_full_socket_is_waited_for(worker):
    worker.welcome()
    client = worker.client()
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    answer, done, _ = worker.ask("/bytes/5000000", client)
    equal((len(answer.body), set(answer.body)), (5000000, {ord("x")}), "body")
    equal((done.flags, done.body_bytes), (CLEAN, 5000000), "DONE")


def a_full_socket_does_not_break_chunks(worker):
    worker.welcome()
    client = worker.client()
    client.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    answer, done, _ = worker.ask("/chunks/40/70000", client)
    equal((len(answer.body), done.flags), (2800000, CLEAN), "body and flags")


def a_client_that_is_gone_is_not_clean(worker):
    worker.welcome()
    client = worker.client()
    client.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.near.close()
    worker.send(request_frame(7, 1, "/bytes/30000000", descriptors=1), [client.far.fileno()])
    equal(worker.done().flags, 0, "flags of DONE")
    equal(worker.ask("/bytes/3")[0].body, b"xxx", "body of the next response")


def a_socket_that_the_server_has_shut_down_is_not_clean(worker):
    worker.welcome()
    client = worker.client()
    client.far.shutdown(socket.SHUT_RDWR)
    worker.send(request_frame(7, 1, "/bytes/30000000", descriptors=1), [client.far.fileno()])
    equal(worker.done().flags, 0, "flags of DONE")


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__code__", None) and case.__module__ == __name__ and not name.startswith("_")
}
