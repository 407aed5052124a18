"""A signal that ends the runner ends everything that it has started."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TRIALS = Path(__file__).resolve().parent.parent
# A loaded machine takes a while to start a few programs.
_PATIENCE_S = 60

# The runner with one application, which is never ready, and nothing to install.
_RUNNER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
DIRECTORY = Path(sys.argv[2])
import run
from kit import application
application.TRIALS = run.TARGET = DIRECTORY
application.Application.version = lambda self: "1"
run.install = lambda application: Installed(application)
class Installed:
    def __init__(self, application):
        self.directory = DIRECTORY / "made"
        self.build = self.directory
        self.python = self.client = Path(sys.executable)
sys.argv[1:] = ["never", "--maitred", "/bin/true"]
sys.exit(run.main())
"""

# It holds the pipe open as long as it runs, and so does a process that it has started.
_APPLICATION = """
title = "Never ready"
package = "never"
by = "nothing"

[alone]
command = ["sh", "-c", "exec >{fifo}; echo there; sleep 1000 & wait"]

[behind]
proxy = true
"""


class Stop(unittest.TestCase):
    def test_nothing_stays_after_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), tempfile.TemporaryDirectory() as directory:
                self._stop(number, Path(directory))

    def _stop(self, number, directory):
        (directory / "never").mkdir()
        (directory / "never" / "use.py").touch()
        fifo = directory / "fifo"
        os.mkfifo(fifo)
        (directory / "never" / "app.toml").write_text(_APPLICATION.replace("{fifo}", str(fifo)))
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        command = [sys.executable, "-c", _RUNNER, str(TRIALS), str(directory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
            try:
                self.assertEqual(self._read(reader, runner), b"there\n")
                runner.send_signal(number)
                said, _ = runner.communicate(timeout=_PATIENCE_S)
                self.assertEqual(runner.returncode, 128 + number, said)
            finally:
                runner.kill()
        self.assertEqual(self._read(reader, None), b"", "the application ended")

    def _read(self, reader, runner):
        """What is written to the pipe next; empty once no process has it open any more."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if runner is not None and runner.poll() is not None:
                self.fail(f"the runner has ended: {runner.stdout.read()}")
            ready, _, _ = select.select([reader], [], [], 0.1)
            # Until a process opens it for writing, it is at its end.
            if ready and ((data := os.read(reader, 100)) or runner is None):
                return data
        self.fail("the pipe is still open" if runner is None else "the application has not started")


if __name__ == "__main__":
    unittest.main()
