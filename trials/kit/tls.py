"""TLS for clients that read in one thread and write in another.

OpenSSL does not allow that with one connection, and Python does not prevent it (https://github.com/python/cpython/issues/143756):
of 10 000 WebSockets of `websockets.sync` to a server of Python's own, 66 seemed to have ended at once.
"""

import asyncio
import concurrent.futures
import socket
import threading

_PIECE_BYTES = 1 << 16


def plain_end(host, port, context, seconds):
    """A socket whose bytes go by TLS to and from a server, in one thread. Raises OSError, or TimeoutError."""
    ours, theirs = socket.socketpair()
    connected = concurrent.futures.Future()
    carry = _carry(theirs, host, port, context, connected)
    threading.Thread(target=asyncio.run, args=(carry,), daemon=True).start()
    try:
        connected.result(seconds)
    except BaseException:
        ours.close()
        raise
    return ours


async def _carry(theirs, host, port, context, connected):
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    except Exception as error:  # The waiting task has to get it, whatever it is.
        theirs.close()
        connected.set_exception(error)
        return
    own_reader, own_writer = await asyncio.open_connection(sock=theirs)
    connected.set_result(None)
    await asyncio.gather(_copy(reader, own_writer), _copy(own_reader, writer))


async def _copy(reader, writer):
    """Until one side has ended, which ends the other one."""
    try:
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        # What that means for a user shows at the other end: it is closed.
        pass
    finally:
        writer.close()
