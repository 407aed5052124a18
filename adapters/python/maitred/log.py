"""What goes to standard error, which Maitred has in its log."""

import sys
import traceback


def _to_standard_error(line):
    # In one write, so that the lines of several workers do not mix.
    sys.stderr.write(f"maitred: the application failed at {line}\n{traceback.format_exc()}")
    sys.stderr.flush()


_report = _to_standard_error


def use(report):
    """From now on `report(line)` tells of failures, within the `except` of each; `line` is the request line."""
    global _report
    _report = report


def failure(head):
    """The exception that is being handled. `head` is that of the request."""
    _report(ascii(head[: head.find(b"\r\n")].decode("latin-1")))
