"""Calls of gRPC with grpcio, whose messages are plain bytes. `calls.py server` says its port, and serves until its standard input
ends; `calls.py client ADDRESS [stopped]` makes the calls."""

import sys
import threading
import traceback
from concurrent import futures

import grpc

TIMEOUT = 30
# More than HTTP/1.1 servers take, and less than what both sides are told to take here.
LARGE = "x" * 20_000
METADATA_BYTES_MAX = ("grpc.max_metadata_size", 60_000)
MESSAGE_BYTES_MAX = ("grpc.max_receive_message_length", 20_000_000)
# One for each call that a client has left.
CANCELLED = threading.Semaphore(0)


def echo(request, context):
    context.send_initial_metadata([("x-initial", dict(context.invocation_metadata()).get("x-large", "none"))])
    context.set_trailing_metadata([("x-trailing", "behind"), ("x-data-bin", b"\0\1\2")])
    return request


def fail(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no: \t ü %")


def sleep(request, context):
    ended = threading.Event()
    context.add_callback(ended.set)
    yield b"begun"
    if ended.wait(TIMEOUT):
        CANCELLED.release()


def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def collect(requests, context):
    return b",".join(requests)


def chat(requests, context):
    yield from requests


def was_cancelled(request, context):
    return b"yes" if CANCELLED.acquire(timeout=TIMEOUT) else b"no"


HANDLERS = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Sleep": grpc.unary_stream_rpc_method_handler(sleep),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Collect": grpc.stream_unary_rpc_method_handler(collect),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
}


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(20), options=[METADATA_BYTES_MAX, MESSAGE_BYTES_MAX])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Calls", HANDLERS)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0).wait()


class Calls:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[METADATA_BYTES_MAX, MESSAGE_BYTES_MAX])

    def __getattr__(self, name):
        kinds = {"Count": "unary_stream", "Sleep": "unary_stream", "Collect": "stream_unary", "Chat": "stream_stream"}
        kind = kinds.get(name, "unary_unary")
        return getattr(self.channel, kind)(f"/test.Calls/{name}")


def error_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("no error")


def unary(calls):
    for size in (0, 1, 100_000, 5_000_000):
        message = b"m" * size
        response, call = calls.Echo.with_call(message, timeout=TIMEOUT, metadata=[("x-large", LARGE)])
        assert response == message, size
        assert dict(call.initial_metadata())["x-initial"] == LARGE, size
        trailing = dict(call.trailing_metadata())
        assert (trailing["x-trailing"], trailing["x-data-bin"]) == ("behind", b"\0\1\2"), trailing


def errors(calls):
    found = error_of(lambda: calls.Fail(b"", timeout=TIMEOUT))
    assert found == (grpc.StatusCode.FAILED_PRECONDITION, "no: \t ü %"), found
    found = error_of(lambda: calls.Missing(b"", timeout=TIMEOUT))
    assert found[0] == grpc.StatusCode.UNIMPLEMENTED, found


def streams(calls):
    assert list(calls.Count(b"1000", timeout=TIMEOUT)) == [str(number).encode() for number in range(1000)]
    assert calls.Collect(iter([b"a", b"b", b"c"]), timeout=TIMEOUT) == b"a,b,c"
    # Each message waits for the answer to the one before.
    answered = threading.Semaphore(1)

    def ask():
        for number in range(100):
            assert answered.acquire(timeout=TIMEOUT)
            yield str(number).encode()

    for number, message in enumerate(calls.Chat(ask(), timeout=TIMEOUT)):
        assert message == str(number).encode(), message
        answered.release()
    assert number == 99


def cancelling(calls):
    call = calls.Sleep(b"", timeout=TIMEOUT)
    assert next(call) == b"begun"
    call.cancel()
    assert calls.WasCancelled(b"", timeout=TIMEOUT) == b"yes"
    over = threading.Event()

    def ask():
        yield b"one"
        over.wait(TIMEOUT)

    chat = calls.Chat(ask(), timeout=TIMEOUT)
    assert next(chat) == b"one"
    chat.cancel()
    assert chat.code() == grpc.StatusCode.CANCELLED
    over.set()


def deadlines(calls):
    found = error_of(lambda: list(calls.Sleep(b"", timeout=0.3)))
    assert found[0] == grpc.StatusCode.DEADLINE_EXCEEDED, found
    assert calls.WasCancelled(b"", timeout=TIMEOUT) == b"yes"


def at_once(calls):
    with futures.ThreadPoolExecutor(50) as pool:
        messages = [str(number).encode() for number in range(500)]
        found = list(pool.map(lambda message: calls.Echo(message, timeout=TIMEOUT), messages))
    assert found == messages


def stopped(calls):
    found = error_of(lambda: calls.Echo(b"", timeout=TIMEOUT))
    assert found[0] == grpc.StatusCode.UNAVAILABLE and "502" in found[1], found


def main():
    if sys.argv[1] == "server":
        return serve()
    calls = Calls(sys.argv[2])
    tests = [stopped] if sys.argv[3:] else [unary, errors, streams, cancelling, deadlines, at_once]
    failed = 0
    for test in tests:
        try:
            test(calls)
        except Exception:
            failed += 1
            print(f"{test.__name__}:\n{traceback.format_exc()}")
    sys.exit(bool(failed))


main()
