"""Programs with their output in files. Each has a session of its own, so that all that it starts ends with it."""

import os
import signal
import subprocess
import time
from pathlib import Path

from .steps import Failure
from .wait import NOTICE_S, PATIENCE_S, go_on, until

# After this long, a program that was asked to end is killed.
_STOP_S = 15


class Process:
    """A running program. `command`: its arguments; `environment`: all of it; `log`: where its output goes."""

    def __init__(self, name, command, directory, environment, log):
        self.name, self.log = name, Path(log)
        go_on()
        with open(log, "ab") as output:
            try:
                self._child = subprocess.Popen(
                    command,
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise Failure(f"{name}: {command[0]}: {error}") from error

    def must_live(self):
        """Raises Failure if it has ended."""
        status = self._child.poll()
        if status is not None:
            raise Failure(f"{self.name} has ended with status {status}; {self.log}:\n{tail(self.log)}")

    def until(self, what, look, seconds=PATIENCE_S):
        """Waits for a condition that only holds while it runs."""
        return until(f"{self.name}: {what} (see {self.log})", look, seconds, self.must_live)

    def end(self, seconds):
        """Its status, once it has ended by itself; None if it has not until then. Raises Stopped."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            go_on()
            if (status := self._wait(min(left, NOTICE_S))) is not None:
                return status
        return None

    def _wait(self, seconds):
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number):
        """To this process alone."""
        if self._child.poll() is None:
            self._child.send_signal(number)

    def stop(self):
        """Ends it, in an orderly way if it can, and whatever is left of its session."""
        self.signal(signal.SIGTERM)
        self._wait(_STOP_S)
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()


def tail(log, lines=40):
    """The end of a log."""
    return "\n".join("    " + line[:400] for line in Path(log).read_text("utf-8", "replace").splitlines()[-lines:])


def run(name, command, directory, environment, log, seconds):
    """A command that ends by itself. Raises Failure if it fails, or takes longer."""
    process = Process(name, command, directory, environment, log)
    try:
        status = process.end(seconds)
    finally:
        process.stop()
    if status != 0:
        how = f"not over after {seconds} s" if status is None else f"status {status}"
        raise Failure(f"{name}: {how}: {' '.join(map(str, command))}; {log}:\n{tail(log)}")
