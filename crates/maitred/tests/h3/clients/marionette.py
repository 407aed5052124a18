"""A headless Firefox, spoken to in its Marionette protocol over TCP; the standard library only.

Protocol: https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html. Each message is its length, a colon, and JSON:
[0, number, command, parameters], answered by [1, number, error, result].
"""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# After this, something hangs.
TIMEOUT_SECS = 60
# Nothing of its own goes to the network.
QUIET = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.dns.disablePrefetch": True,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    # Any free port, which it says at its start.
    "marionette.port": 0,
}


class Firefox:
    """One browser with one page. A context manager: leaving it ends the browser and all its processes."""

    def __init__(self, program, preferences, authority=None):
        """`authority`: the certificate of a CA that it trusts, as a file."""
        self.profile = tempfile.mkdtemp(prefix="maitred-firefox-")
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in {**QUIET, **preferences}.items()]
        Path(self.profile, "user.js").write_text("\n".join(lines) + "\n")
        if authority:
            self.trust(authority)
        # A session of its own, so that all its processes can be ended by its number.
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--no-remote", "--profile", self.profile], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": self.profile, "MOZ_CRASHREPORTER_DISABLE": "1"},
        )
        self.number, self.buffer, self.socket = 0, b"", None
        self.said, self.ports = [], queue.Queue()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def trust(self, authority):
        database = f"sql:{self.profile}"
        for arguments in (["-N", "--empty-password"], ["-A", "-n", "maitred", "-t", "C,,", "-i", str(authority)]):
            subprocess.run(["certutil", *arguments, "-d", database], check=True, capture_output=True)

    def __enter__(self):
        try:
            self.socket = socket.create_connection(("127.0.0.1", self.port()), timeout=TIMEOUT_SECS)
            self.receive()
            self.call("WebDriver:NewSession")
            times = {"script": TIMEOUT_SECS * 1000, "pageLoad": TIMEOUT_SECS * 1000}
            self.call("WebDriver:SetTimeouts", **times)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.socket:
            self.socket.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def listen(self):
        """Reads what it says, to its end: a full pipe would stop it."""
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(rb"Marionette\s+INFO\s+Listening on port (\d+)\s", line):
                self.ports.put(int(found[1]))

    def port(self):
        """What it says at its start."""
        try:
            return self.ports.get(timeout=TIMEOUT_SECS)
        except queue.Empty:
            raise TimeoutError(f"the browser does not say its port: {self.said}") from None

    def call(self, command, **parameters):
        self.number += 1
        message = json.dumps([0, self.number, command, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        kind, number, error, result = self.receive()
        if (kind, number) != (1, self.number):
            raise RuntimeError(f"another answer than that to {command}: {number}")
        if error:
            raise RuntimeError(f"{command}: {error['error']}: {error['message']}")
        return result

    def receive(self):
        while b":" not in self.buffer:
            self.more()
        length, _, rest = self.buffer.partition(b":")
        self.buffer = rest
        while len(self.buffer) < int(length):
            self.more()
        message, self.buffer = self.buffer[:int(length)], self.buffer[int(length):]
        return json.loads(message)

    def more(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise EOFError("the browser has ended")
        self.buffer += piece

    def go(self, url):
        self.call("WebDriver:Navigate", url=url)

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        script = f"const done = arguments[0]; Promise.resolve({expression}).then(value => done({{ value }}), " \
            "error => done({ error: String(error) }));"
        said = self.call("WebDriver:ExecuteAsyncScript", script=script, args=[])["value"]
        if said is None:
            raise RuntimeError("the page was left")
        if "error" in said:
            raise RuntimeError(f"{expression}: {said['error']}")
        return said["value"]

    def until(self, expression, what):
        """Waits until an expression is true. A page that is left while this looks makes it look again."""
        deadline = time.monotonic() + TIMEOUT_SECS
        look = f"""new Promise(done => {{
            const late = performance.now() + 1000;
            const look = () => {{
                let value = false;
                try {{ value = {expression}; }} catch (error) {{ value = false; }}
                if (value || performance.now() > late) done(Boolean(value));
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        while True:
            try:
                if self.evaluate(look):
                    return
            except RuntimeError as error:
                last = error
            else:
                last = "not in time"
            if time.monotonic() > deadline:
                text = self.evaluate("document.documentElement.innerText")
                raise AssertionError(f"{what}: {last}; the page says: {text}")
