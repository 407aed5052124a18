"""Waiting for conditions, with a deadline."""

import time

from .steps import Late

# Nothing takes that long on an idle machine; a loaded one takes a while to start a large application.
PATIENCE_S = 90


def until(what, look, seconds=PATIENCE_S, given_up=lambda: None):
    """Asks `look` until it answers something true, which is returned. Raises Late; `given_up` may raise earlier."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        given_up()
        if time.monotonic() > deadline:
            raise Late(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return found
