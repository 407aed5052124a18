"""The worker of WSGI applications: takes requests from the channel, calls the application, reports."""

import io

from . import log
from .environ import BODY_BUFFER_BYTES, EARLY_HINTS, EnvironBuilder
from .frames import BODY_STREAM, HTTP10, MAY_DETACH
from .native import library
from .response import Response
from .sendfile import FileWrapper
from .sockets import WERKZEUG, Sockets
from .streamed import StreamedBody
from .tail import ClientGone

# The channel of a worker that answers one request after another.
if library is None:
    from .channel import Channel
else:
    from .native_channel import Channel


def serve(channel, application):
    """Answers requests until the channel ends. Raises frames.ProtocolError."""
    builder = EnvironBuilder()
    build = builder.build
    sockets = Sockets(WERKZEUG)
    channel.hello()
    for entry in channel.unusual(application, builder):
        if entry[2] & MAY_DETACH:
            sockets.answer(answer, channel, application, build, entry)
        else:
            answer(channel, application, build, entry)
    sockets.leave()


def answer(channel, application, build, entry, offer=None):
    """Answers one of Channel.requests, and reports it. `build` is that of an EnvironBuilder, `offer` what Sockets.answer
    passes."""
    connection, request, flags, descriptor, meta, head, body, body_file = entry
    response = Response(channel, connection, request, descriptor, flags, meta)
    if flags & MAY_DETACH:
        # Bytes of the other protocol: an application that takes the connection over reads them there. Otherwise they stay
        # Maitred's.
        body = b""
    try:
        environ = build(meta, head, body, body_file, flags & HTTP10)
        if flags & BODY_STREAM:
            # Reports do not wait for a client.
            raw = StreamedBody(descriptor, meta, head, response.ask_for_body, channel.report)
            environ["wsgi.input"] = io.BufferedReader(raw, BODY_BUFFER_BYTES)
        if EARLY_HINTS in environ:
            environ[EARLY_HINTS] = response.hint
        if offer is not None:
            offer.make(environ, response)
        _run(application, environ, response)
    except ClientGone:
        pass
    except BaseException as error:  # Also SystemExit: an application that calls exit() must not take others' requests along.
        if offer is None or not offer.excuses(error):
            _fail(response, head)
    try:
        response.finish()
    except ClientGone:
        response.outcome = 0
    except OSError:
        response.outcome = 0
        log.failure(head)
    # The application may have kept `write`; the descriptor is the next response's.
    response.give_away()
    if offer is None or not offer.end(response):
        channel.done(connection, request, response.outcome, response.status, response.body_bytes)
    return response


def _run(application, environ, response):
    result = application(environ, response.start_response)
    try:
        give(response, result)
    finally:
        close = getattr(result, "close", None)
        if close is not None:
            close()


def give(response, result):
    """What an application has returned becomes the body of its Response."""
    kind = type(result)
    if kind is list or kind is tuple:
        if not response.started:
            response.whole(result[0] if len(result) == 1 else b"".join(result))
            return
    elif kind is FileWrapper and not response.started:
        region = result.region()
        if region is not None:
            response.file(*region)
            return
    elif not response.started and _length(result) == 1:
        for piece in result:
            response.whole(piece)
            return
    for piece in result:
        response.write(piece)
    response.end()


def _fail(response, head):
    log.failure(head)
    try:
        response.fail()
    except ClientGone:
        pass
    except OSError:
        log.failure(head)


def _length(result):
    try:
        return len(result)
    except TypeError:
        return None
