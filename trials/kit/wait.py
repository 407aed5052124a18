"""Waiting for conditions, with a deadline, and until this program is to end."""

import os
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
    and would stay. Returns what tells the signal's number, 0 before one has come.

    A handler in Python runs in the main thread, and only when that runs: one that comes just before it goes to wait for other
    threads would be seen after that wait, which it was to end. So the interpreter writes each signal's number to a pipe, which a
    thread reads.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    first = []

    def watch():
        first.append(os.read(reader, 1)[0])
        _ending.set()

    threading.Thread(target=watch, name="signals", daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return lambda: first[0] if first else 0


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
