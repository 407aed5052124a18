"""What goes to standard error, which Maitred has in its log."""

import logging
import sys
import traceback

# Names of fields that were dropped; applications could have any number.
_DROPPED_MAX = 100


def _to_standard_error(line):
    # In one write, so that the lines of several workers do not mix.
    sys.stderr.write(f"maitred: the application failed at {line}\n{traceback.format_exc()}")
    sys.stderr.flush()


_report = _to_standard_error
_logger = logging.getLogger("maitred")
_dropped = set()


def use(report, logger):
    """From now on `report(line)` tells of failures, within the `except` of each; `line` is the request line. `logger` gets what
    is for debugging."""
    global _report, _logger
    _report, _logger = report, logger


def failure(head):
    """The exception that is being handled. `head` is that of the request."""
    _report(ascii(head[: head.find(b"\r\n")].decode("latin-1")))


def warn(text):
    """Something that the operator of the application should know."""
    _logger.warning("maitred: %s", text)


def drop(name):
    """A field of this name is left out of a response; said once."""
    key = name.lower()
    if key not in _dropped and len(_dropped) < _DROPPED_MAX:
        _dropped.add(key)
        _logger.debug("%s concerns the connection: it is left out of responses", name)


def unopened(error):
    """A file of a response cannot be opened, which the client is told by 404."""
    _logger.debug("a file of a response cannot be opened: %s", error)


def leave_out(text):
    """Something else of a response is left out."""
    _logger.debug("left out of a response: %s", text)
