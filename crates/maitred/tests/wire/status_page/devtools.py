"""A headless Chromium, spoken to in the DevTools protocol over a pair of pipes; the standard library only.

Protocol: https://chromedevtools.github.io/devtools-protocol/. With --remote-debugging-pipe the browser reads commands from
descriptor 3 and writes to descriptor 4: JSON, each message ended by a zero byte.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

# After this, something hangs.
PATIENCE_SECS = 60


class Browser:
    """One browser with one page. A context manager: leaving it ends the browser and all its processes."""

    def __init__(self, program, more=()):
        """`more`: arguments of Chromium's beside those that make it quiet."""
        self.profile = tempfile.mkdtemp(prefix="maitred-chromium-")
        to_read, self.commands = os.pipe()
        self.messages, to_write = os.pipe()
        arguments = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--disable-dev-shm-usage", f"--user-data-dir={self.profile}", "--remote-debugging-pipe", *more, "about:blank",
        ]

        def hand_over():
            # Above 4 first: one of them may be 3 or 4 itself, in the other's place.
            read, write = os.dup(to_read), os.dup(to_write)
            high = [os.dup2(fd, at) for fd, at in ((read, 98), (write, 99))]
            for fd, at in zip(high, (3, 4)):
                os.dup2(fd, at)
            os.closerange(5, 100)

        # A session of its own, so that all its processes can be ended by its number.
        self.process = subprocess.Popen(
            arguments, preexec_fn=hand_over, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.events = []
        self.session = None

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE_SECS
        pages = []
        # It answers before it has opened its page.
        while not pages and time.monotonic() < deadline:
            targets = self.call("Target.getTargets")["targetInfos"]
            pages = [target["targetId"] for target in targets if target["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.commands)
        os.close(self.messages)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        """One command, and its result. Events that come meanwhile are kept in `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_SECS
        while True:
            answer = self.message(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.messages], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.messages, 1 << 16)
            if not piece:
                raise EOFError("the browser has ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, what):
        """Waits until an expression is true; the page looks at each of its frames, without a sleep."""
        look = f"""new Promise((done, fail) => {{
            const late = performance.now() + {PATIENCE_SECS * 1000 // 2};
            const look = () => {{
                let value = false;
                try {{ value = {expression}; }} catch (error) {{ value = false; }}
                if (value) done(value);
                else if (performance.now() > late) fail(new Error("not in time"));
                else setTimeout(look, 50);
            }};
            look();
        }})"""
        try:
            return self.evaluate(look)
        except RuntimeError as error:
            raise AssertionError(f"{what}: {error}; the page says: {self.evaluate('document.body.innerText')}") from error

    def complaints(self):
        """What the page said on the console, what it threw, and what its policy refused."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled":
                found.append(str([argument.get("value") for argument in parameters["args"]]))
            elif method == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
        return found

    def requested(self):
        """Every address that the page asked for."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def key(self, name, code, text=""):
        """One key, pressed and released."""
        common = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
