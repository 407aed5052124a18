"""What goes to standard error, which Maitred has in its log."""

import sys
import traceback


def failure(head):
    """The exception that is being handled, in one write, so that the lines of several workers do not mix. `head` is that of
    the request."""
    line = ascii(head[: head.find(b"\r\n")].decode("latin-1"))
    sys.stderr.write(f"maitred: the application failed at {line}\n{traceback.format_exc()}")
    sys.stderr.flush()
