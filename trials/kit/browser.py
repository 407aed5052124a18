"""A page in headless Chromium, used as a person does: looks at text, fills in fields, clicks, picks files."""

import json
import shutil
import sys

from .application import ROOT
from .steps import expect

sys.path.insert(0, str(ROOT / "crates" / "maitred" / "tests" / "wire" / "status_page"))

from devtools import Browser  # noqa: E402

# Statuses that pages ask for on purpose are left to the scripts; these are failures of a server.
_FAILED = range(400, 600)


class Page:
    """One page of one browser, at the user's base address."""

    def __init__(self, user):
        more = ["--ignore-certificate-errors", "--window-size=1280,900"]
        if user.protocol == "https/1.1":
            more.append("--disable-http2")
        self._user, self._base = user, user.base
        self._browser = Browser(shutil.which("chromium"), more)
        try:
            self._browser.__enter__()
        except BaseException:
            # There is no other owner yet.
            self.close()
            raise

    def close(self):
        """Ends the browser."""
        self._browser.__exit__()

    def open(self, path):
        """Goes to an address of the application, and waits until the page is loaded."""
        self._browser.call("Page.navigate", url=self._base + path)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'", f"{path} is loaded")

    def until(self, expression, what):
        """Waits until a JavaScript expression is true; also across pages. Its value. Raises AssertionError."""
        while True:
            try:
                return self._browser.until(expression, what)
            except (AssertionError, RuntimeError) as error:
                # The page was left while it was asked, and had perhaps no text yet to be shown with the failure.
                why = str(error.__context__ or error)
                if "context was destroyed" not in why and "target navigated" not in why:
                    raise

    def value(self, expression):
        """Of a JavaScript expression; a promise is waited for."""
        return self._browser.evaluate(expression)

    def see(self, text):
        """Waits until a text can be read on the page."""
        self.until(f"document.body.innerText.includes({json.dumps(text)})", f"the text {text!r}")

    def click(self, selector):
        """Clicks the first element that a selector of CSS finds, once it is there and shown."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{found} && {found}.checkVisibility() && !{found}.disabled", f"{selector} can be clicked")
        self.value(f"{found}.click()")

    def click_text(self, text, selector="button, a, [role=button]"):
        """Clicks the first of the elements whose text is this."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find(each => each.innerText.trim() === {json.dumps(text)})"
        self.until(f"{found} && {found}.checkVisibility()", f"{text!r} can be clicked")
        self.value(f"{found}.click()")

    def fill(self, selector, text):
        """Types into a field, as the keyboard does, in place of what is there."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{found} && {found}.checkVisibility()", f"{selector} is there")
        self.value(f"({found}.focus(), {found}.select && {found}.select())")
        self._browser.call("Input.insertText", text=text)

    def press(self, name, code, text=""):
        """One key, such as `"Enter", 13, "\\r"`."""
        self._browser.key(name, code, text)

    def choose(self, selector, *paths):
        """Picks files for a field of a form."""
        self.until(f"!!document.querySelector({json.dumps(selector)})", f"{selector} is there")
        root = self._browser.call("DOM.getDocument")["root"]["nodeId"]
        node = self._browser.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self._browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def upload(self, selector, name, data):
        """Picks a file with these bytes for a field of a form."""
        path = self._user.directory / name
        path.write_bytes(data)
        self.choose(selector, path)

    def text(self):
        """What can be read on the page."""
        return self.value("document.body.innerText")

    def responses(self):
        """(path, status, protocol) of everything that the page has loaded from the application."""
        self.value("1")
        found = []
        for event in self._browser.events:
            if event.get("method") == "Network.responseReceived":
                response = event["params"]["response"]
                if response["url"].startswith(self._base):
                    found.append((response["url"].removeprefix(self._base), response["status"], response.get("protocol")))
        return found

    def failures(self):
        """What went wrong on the page: responses of 400 and above, what could not be loaded, exceptions, errors on the console."""
        wrong = [f"{path}: {status}" for path, status, _ in self.responses() if status in _FAILED]
        for event in self._browser.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Network.loadingFailed" and not told.get("canceled"):
                wrong.append(f"{told.get('type')} cannot be loaded: {told.get('errorText')}")
            elif method == "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                wrong.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Network.webSocketFrameError":
                wrong.append(f"WebSocket: {told['errorMessage']}")
        return wrong

    def closed_sockets(self):
        """How many WebSockets of the page have ended."""
        self.value("1")
        return sum(event.get("method") == "Network.webSocketClosed" for event in self._browser.events)

    def note(self, files=0):
        """Notes what has failed. Raises Failure unless more than `files` files were loaded, all of them by the protocol that is tried."""
        self._user.note("failures", self.failures())
        found, protocol = self.responses(), "h2" if self._user.protocol == "https/2" else "http/1.1"
        expect(len(found) > files, f"a page of {len(found)} files")
        others = {(path, by) for path, _, by in found if by != protocol}
        expect(not others, f"not by {protocol}: {sorted(others)[:5]}")
