"""The worker: takes requests from the channel, calls the application, reports."""

import sys
import traceback

from .channel import HTTP10
from .environ import EnvironBuilder
from .response import ClientGone, Response


def serve(channel, application):
    """Answers requests until the channel ends. Raises channel.ProtocolError."""
    build = EnvironBuilder().build
    done = channel.done
    channel.hello()
    for connection, request, flags, descriptor, meta, head, body in channel.requests():
        response = Response(descriptor, flags)
        try:
            environ = build(meta, head, body, flags & HTTP10)
            _run(application, environ, response)
        except ClientGone:
            pass
        except BaseException:  # Also SystemExit: an application that calls exit() must not take others' requests along.
            _log_failure(head)
            try:
                response.fail()
            except ClientGone:
                pass
        done(connection, request, response.outcome, response.status, response.body_bytes)


def _run(application, environ, response):
    result = application(environ, response.start_response)
    try:
        kind = type(result)
        if kind is list or kind is tuple:
            if not response.started:
                response.whole(result[0] if len(result) == 1 else b"".join(result))
                return
        elif not response.started and _length(result) == 1:
            for piece in result:
                response.whole(piece)
                return
        for piece in result:
            response.write(piece)
        response.end()
    finally:
        close = getattr(result, "close", None)
        if close is not None:
            close()


def _length(result):
    try:
        return len(result)
    except TypeError:
        return None


def _log_failure(head):
    """One write, so that the lines of several workers do not mix."""
    line = ascii(head[: head.find(b"\r\n")].decode("latin-1"))
    sys.stderr.write(f"maitred: the application failed at {line}\n{traceback.format_exc()}")
    sys.stderr.flush()
