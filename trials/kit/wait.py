"""Waiting for conditions, with a deadline, and until this program is to end."""

import signal
import threading
import time

from .steps import Late

# Nothing takes that long on an idle machine; a loaded one takes a while to start a large application.
PATIENCE_S = 90
# How soon a long wait notices that this program is to end.
NOTICE_S = 0.2

_ending = threading.Event()


class Stopped(BaseException):
    """This program was asked to end. No Exception, so that it is not handled as a failure."""


def end_on_signals():
    """From now on, a signal that ends programs lets every thread end what it has started: the servers have sessions of their own,
    and would stay."""

    def stop(number, _):
        stop.number = stop.number or number
        _ending.set()

    stop.number = 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    return lambda: stop.number


def go_on():
    """Raises Stopped once this program is to end."""
    if _ending.is_set():
        raise Stopped


def until(what, look, seconds=PATIENCE_S, given_up=lambda: None):
    """Asks `look` until it answers something true, which is returned. Raises Late; `given_up` may raise earlier."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        go_on()
        given_up()
        if time.monotonic() > deadline:
            raise Late(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return found
