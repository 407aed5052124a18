"""The compiled part of this package, where there is one: `maitred/_native.abi3.so`. Without it, and with MAITRED_PURE=1, Python does
all of the work."""

import os

from . import log
from .tail import ClientGone

# Why there is none; for the person who wonders.
why_not = None
try:
    if os.environ.get("MAITRED_PURE") == "1":
        raise ImportError("MAITRED_PURE=1")
    from . import _native as library
except ImportError as error:
    library, why_not = None, str(error)


def settle(response, tail, error, head):
    """The end of a request that did not go the usual way: leaves what is kept to Maitred, and tells of `error`.

    `response` is a response.Response, or None if the library has the response; then `tail` is what it has of the rest. Returns
    (outcome, status, body_bytes) of the first; True for the other, or None if the response is broken after all.
    """
    if error is not None and not isinstance(error, ClientGone):
        _tell(error, head)
        if response is not None:
            try:
                response.fail()
            except ClientGone:
                pass
            except OSError:
                log.failure(head)
    whole = _end(response if response is not None else tail, head)
    if response is None:
        return whole
    response.give_away()
    return response.outcome if whole else 0, response.status, response.body_bytes


def _tell(error, head):
    try:
        raise error
    except BaseException:
        log.failure(head)


def _end(last, head):
    """True if everything was left; None otherwise."""
    try:
        if last is not None:
            (last.finish if hasattr(last, "finish") else last.end)()
    except ClientGone:
        return None
    except OSError:
        log.failure(head)
        return None
    return True
