"""What a client must not send, and whether the server ends stream or connection with the right error.

    illegal.py [--ca FILE] ORIGIN [CASE...]

The cases are those of h3spec's list, and more, by aioquic's building blocks. Exit status: 0 if the server noticed all of them,
but those that are known.
"""

import argparse
import asyncio

from aioquic.h3.connection import ErrorCode
from aioquic.quic.packet import QuicErrorCode

from h3 import Reset, connect, in_time
from raw import Raw
from table import Table, check

# A server that has noticed nothing says nothing: it has this long.
NOTICE_SECS = 5

# Cases that fail, and why that is right or bearable.
KNOWN = {}

table = Table(KNOWN)


class Site:
    def __init__(self, origin, ca):
        self.origin, self.ca = origin, ca


def application(*codes):
    return [(True, int(code)) for code in codes]


def transport(*codes):
    return [(False, int(code)) for code in codes]


def alert(number):
    """An alert of TLS, as an error of QUIC (9001-4.8)."""
    return transport(QuicErrorCode.CRYPTO_ERROR + number)


def shown(of_application, code):
    names = ErrorCode if of_application else QuicErrorCode
    try:
        return names(code).name
    except ValueError:
        return f"{'application' if of_application else 'transport'} error {code:#x}"


def connection_error(rule, what, expected, *, wait=True, http=None, **raw):
    """A decorator: what the function does with a client ends the connection with one of the expected errors."""
    more = {"http": http} if http else {}

    def add(act):
        async def run(site):
            made = connect(site.origin, site.ca, wait=wait, connection=lambda **rest: Raw(**raw, **rest), **more)
            async with made as client:
                done = act(client)
                # Some have to wait for the server.
                if done is not None:
                    await done
                client.transmit()
                names = " or ".join(shown(*error) for error in expected)
                try:
                    closed = await in_time(client.closed, NOTICE_SECS)
                except asyncio.TimeoutError:
                    raise AssertionError(f"not noticed, wanted {names}") from None
                found = (closed.of_application, closed.code)
                check(found in expected, lambda: f"{shown(*found)} {closed.reason!r}, wanted {names}")
                return shown(*found)
        run.__name__ = act.__name__
        return table.case(rule, what)(run)
    return add


def message_error(rule, what, error=ErrorCode.H3_MESSAGE_ERROR):
    """The same for a request that is malformed: the function sends it, and gives its stream. The server answers 400, or resets
    the stream with this error, and the connection stays; or ends that with it."""
    def add(act):
        async def run(site):
            async with connect(site.origin, site.ca) as client:
                stream = act(client)
                client.transmit()
                said = await malformed(client, stream, error)
                if not client.closed.done():
                    answer = await client.get("/a.txt")
                    check(answer.status == 200, f"after it: status {answer.status}")
                return said
        run.__name__ = act.__name__
        return table.case(rule, what)(run)
    return add


async def malformed(client, stream, error):
    answer = client.answers[stream]
    await asyncio.wait([answer.done, client.closed], timeout=NOTICE_SECS, return_when=asyncio.FIRST_COMPLETED)
    if client.closed.done():
        closed = client.closed.result()
        check((closed.of_application, closed.code) == (True, error), lambda: f"closed with {closed}")
        return "connection closed"
    if client.stopped.get(stream) == error or client.resets.get(stream) == error:
        return "stream reset"
    check(answer.done.done(), f"not noticed: status {answer.status}, stopped {client.stopped}")
    failed = answer.done.exception()
    check(not isinstance(failed, Reset), lambda: f"another error: {failed}")
    check(answer.status == 400, f"answered with {answer.status}")
    return "400"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ca")
    parser.add_argument("origin")
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    # They add their cases.
    for module in ("illegal_http", "illegal_messages", "illegal_qpack", "illegal_transport"):
        __import__(module)
    table.main(given.case, Site(given.origin, given.ca))


if __name__ == "__main__":
    # As a module of its own name, so that the others find this table and not another one.
    import illegal

    illegal.main()
