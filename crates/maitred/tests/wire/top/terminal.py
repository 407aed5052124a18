"""Runs `maitred top` in a terminal of its own, types, and looks at how the terminal is left.

    terminal.py MAITRED CONFIG
"""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

# After this, something hangs.
PATIENCE_SECS = 60
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_until(terminal, wanted, seen=b""):
    """Everything that was drawn up to `wanted`; None for it: up to the end."""
    deadline = time.monotonic() + PATIENCE_SECS
    while wanted is None or wanted not in seen:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            raise AssertionError(f"{wanted} did not come, but {seen[-300:]}")
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # EIO: the other side is closed.
            piece = b""
        if not piece:
            if wanted is None:
                return seen
            raise AssertionError(f"{wanted} did not come, but {seen[-300:]}")
        seen += piece
    return seen


def run(program, config, end, status):
    """Starts it, resizes the terminal, and ends it with `end`; the terminal has to be as it was, and it exits with `status`."""
    ours, theirs = pty.openpty()
    resize(theirs, 24, 100)
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [program, "top", "-c", config, "--interval", "0.2"], stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, env={**os.environ, "TERM": "xterm"},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        drawn = read_until(ours, b"listening")
        assert ENTER in drawn and b"generation" in drawn, drawn
        assert termios.tcgetattr(theirs)[3] & termios.ICANON == 0, "keys come one by one"
        # The screen is cleared, and drawn anew.
        resize(theirs, 30, 60)
        drawn = read_until(ours, b"\x1b[2J")
        read_until(ours, b"listening", drawn.partition(b"\x1b[2J")[2])
        if isinstance(end, bytes):
            os.write(ours, end)
        else:
            process.send_signal(end)
        # Linux keeps what was written until it is read, so the end can be awaited first.
        assert process.wait(PATIENCE_SECS) == status, process.returncode
        after = termios.tcgetattr(theirs)
        os.close(theirs)
        left = read_until(ours, None)
        assert LEAVE in left and SHOW_CURSOR in left, left
        assert after[:4] == before[:4], f"the terminal is left as {after}, it was {before}"
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def main(program, config):
    for end in (b"q", b"\x03", b"\x1b", signal.SIGTERM, signal.SIGHUP):
        run(program, config, end, 0)


main(*sys.argv[1:])
