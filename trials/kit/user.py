"""Does what use.py says, as a program of its own: `python3 -m kit.user SETUP.json`. Writes what it has seen beside SETUP.json."""

import faulthandler
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import urllib.parse
from pathlib import Path

import websockets.sync.client
from observation import digest, joined

from .client import SILENCE_S, Client, Response, context
from .steps import STEPS, Late, expect, told
from .tls import plain_end
from .wait import until

# A step that is longer than this waits for something that does not come. Most take less than a second.
_STEP_S = 100
# Texts up to this length are kept, to show where they differ.
_TEXT_BYTES_MAX = 200_000


class User:
    """A user of the application, at `base`.

    `behind`: whether Maitred is in between; `protocol`: "http/1.1", "https/1.1" or "https/2"; `directory`: for this user's files;
    `authority`: the file with the certificate that is to be trusted; `root`: of the repository; `setup`: all that was said.
    """

    def __init__(self, setup):
        self.setup = setup
        self.base, self.protocol, self.behind = setup["base"], setup["protocol"], setup["behind"]
        self.authority, self.root, self.directory = setup["authority"], Path(setup["root"]), Path(setup["directory"])
        self.host = urllib.parse.urlsplit(self.base).netloc
        self.reloads = 0
        self.seen = []
        self._masks = []
        self._browser = None
        self.client = Client(self.base, self.protocol, self.authority)

    # Requests

    def request(self, method, path, fields=None, body=None, **how):
        """A whole Response; `how` as in `client.Client.start`."""
        return self.client.request(method, path, fields, body, **how)

    def get(self, path, fields=None, **how):
        """GET."""
        return self.request("GET", path, fields, **how)

    def post(self, path, fields=None, body=None, **how):
        """POST."""
        return self.request("POST", path, fields, body, **how)

    def start(self, method, path, fields=None, body=None, **how):
        """A request whose response is read as it comes: an Exchange, for `with`."""
        return self.client.start(method, path, fields, body, **how)

    def websocket(self, path, **how):
        """A connection of `websockets.sync.client`, for `with`."""
        base = urllib.parse.urlsplit(self.base)
        if base.scheme == "https":
            how["sock"] = plain_end(base.hostname, base.port, context(self.authority), SILENCE_S)
        url = f"ws://{base.netloc}{path}"
        return websockets.sync.client.connect(url, open_timeout=SILENCE_S, close_timeout=SILENCE_S, proxy=None, **how)

    def another(self):
        """Another user, with connections and cookies of their own, whose observations are this user's."""
        other = User(self.setup)
        other.seen, other._masks = self.seen, self._masks
        return other

    def browser(self):
        """A page in Chromium: the same one in all steps."""
        if self._browser is None:
            from .browser import Page

            self._browser = Page(self)
        return self._browser

    def run(self, *words, directory=None, environment=None, status=0, seconds=_STEP_S):
        """A program that ends by itself; what it has written. Raises Failure if it ends otherwise."""
        words = [str(word) for word in words]
        try:
            done = subprocess.run(
                words,
                cwd=directory or self.directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise Late(f"waited {seconds} s for the end of {' '.join(words)}; it says {error.output or b''!r}") from error
        text = done.stdout.decode("utf-8", "replace")
        expect(done.returncode == status, f"{' '.join(words)}: status {done.returncode}:\n{text[-2000:]}")
        return text

    def until(self, what, look, seconds=SILENCE_S):
        """Asks `look` until it answers something true, which is returned. Raises Late."""
        return until(what, look, seconds)

    def reload(self):
        """Has Maitred read its configuration again, in the middle of whatever is going on; alone, nothing happens."""
        self.reloads += 1
        if self.behind:
            before = self._generation()
            self.run(*self.setup["reload"])
            until("the new worker process", lambda: self._generation() > before)

    def _generation(self):
        return json.loads(self.run(*self.setup["status"]))["generation"]

    # Observations

    def mask(self, pattern, by):
        """What differs each time (a token, a time) is replaced, by a regular expression, in everything that is seen from now on."""
        self._masks.append((re.compile(pattern, re.DOTALL), by))

    def note(self, name, value):
        """A value that has to be the same alone and behind Maitred."""
        self.seen.append((name, {"value": self._text(value if isinstance(value, str) else repr(value))}))

    def see(self, name, response, without=(), body=True):
        """A response: status, fields and body have to be the same. `without`: fields that cannot be compared."""
        found = {"status": str(response.status)}
        if isinstance(response, Response):
            # One that is still coming may be over by now, or not.
            found["end"] = response.end
        for key in dict(response.fields):
            if key not in without:
                value = joined(response.all(key))
                found[key] = "present" if key in ("date", "x-request-id") else self._text(value)
        if body:
            found["body"] = self._body(response)
            # Then it says nothing that the body does not, and differs with what is masked.
            if found.get("content-length") == str(len(response.body)):
                found["content-length"] = "as long as the body"
        self.seen.append((name, found))
        return response

    def _body(self, response):
        try:
            text = response.body.decode()
        except UnicodeDecodeError:
            return digest(response.body)
        return self._text(text)

    def _text(self, text):
        local = "localhost"
        text = text.replace(self.base.replace("127.0.0.1", local), "{base}").replace(self.host.replace("127.0.0.1", local), "{host}")
        for each in (self.base, self.base.replace("/", "\\/"), urllib.parse.quote(self.base, safe="")):
            text = text.replace(each, "{base}")
        text = text.replace(self.host, "{host}").replace(urllib.parse.quote(self.host, safe=""), "{host}")
        for pattern, by in self._masks:
            text = pattern.sub(by, text)
        return text if len(text) <= _TEXT_BYTES_MAX else digest(text.encode())

    def close(self):
        """Ends what is left."""
        if self._browser is not None:
            self._browser.close()
        self.client.close()


def _late(*_):
    # The place is in the trace, which is kept.
    raise Late(f"not over after {_STEP_S} s")


def _steps(setup):
    """Of the application's use.py."""
    path = Path(setup["use"])
    sys.path.insert(0, str(path.parent))
    specification = importlib.util.spec_from_file_location("use", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return [function for function in STEPS if not setup["only"] or setup["only"] in function.__name__]


def _take(user, function):
    """One step: what was seen, or why it failed."""
    user.seen = []
    print(f"-- {function.__name__}", flush=True)
    began = time.monotonic()
    signal.alarm(_STEP_S)
    failure = None
    try:
        function(user)
    except Exception as error:  # Whatever goes wrong in one step, the others still run.
        failure = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    finally:
        signal.alarm(0)
    took = time.monotonic() - began
    print(f"   {failure or 'done'}, {took:.2f} s", flush=True)
    return {"step": function.__name__, "told": told(function), "seconds": took, "failure": failure, "seen": user.seen}


def main(path):
    """Everything, one step after another."""
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGALRM, _late)
    # A browser has a session of its own, and ends in the `finally` below.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    setup = json.loads(Path(path).read_text())
    user = User(setup)
    try:
        results = [_take(user, function) for function in _steps(setup)]
    finally:
        user.close()
    found = {"steps": results, "reloads": user.reloads}
    Path(setup["results"]).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
