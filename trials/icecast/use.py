"""A station that sends, and its listeners."""

import re
import subprocess
import time

from kit import expect, step

_ADMIN = ("admin", "admin-secret")
_LENGTH = 6000
# A body whose length is stated, and that comes to no end: 60 GB.
_ENDLESS = ["--header", "Transfer-Encoding:", "--header", "Content-Length: 60000000000"]
_META = 16000
# `request_timeout` of app.toml.
_SILENCE_S = 3


def _mask(user):
    user.mask(r"20\d\d-\d\d-\d\dT[\d:]{8}[+-]\d{4}", "(time)")
    user.mask(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} [+-]\d{4}", "(time)")


class _Source:
    """What a station sends by curl, piece by piece. A context manager."""

    def __init__(self, user, mount, *options, method="PUT", password="source-secret"):
        self._user, self._mount = user, mount
        self.answer = user.directory / f"{mount.strip('/')}-{method}.txt"
        protocol = "--http2" if user.protocol == "https/2" else "--http1.1"
        fields = ("Content-Type: audio/mpeg", "Ice-Name: Radio é", "Ice-Public: 0", "Ice-Genre: tests")
        words = ["curl", "--silent", "--no-buffer", protocol, "--noproxy", "*", "--request", method]
        words += ["--user", f"source:{password}", *(word for field in fields for word in ("--header", field))]
        words += [*options, "--output", str(self.answer), "--write-out", "%{http_code}", "--upload-file", ".", user.base + mount]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def there(self):
        """Waits until listeners can find it."""
        user, mount = self._user, self._mount
        user.until("the source", lambda: self._process.poll() is not None or _listeners(user, mount) is not None)
        expect(self._process.poll() is None, "curl has ended")
        return self

    def send(self):
        """The next piece; what tells it from others, at its beginning."""
        self._count += 1
        mark = f"<piece {self._count:04}>".encode()
        self._process.stdin.write(mark.ljust(_LENGTH, b"x"))
        self._process.stdin.flush()
        return mark

    def status(self):
        """What the server says, once that is all: what is sent meanwhile may be lost."""
        self._user.until("the end of curl", lambda: self._process.poll() is not None)
        return self._process.stdout.read().decode()


class _Listener:
    """A user who listens, with a connection of their own."""

    def __init__(self, user, path, fields=None):
        self.user = user.another()
        self.exchange = self.user.start("GET", path, fields).head()
        self.heard = b""

    def hear(self, *marks):
        """Waits for these."""
        for mark in marks:
            while mark not in self.heard:
                piece = self.exchange.read(repr(mark))
                expect(piece, f"the stream has ended before {mark!r}: {self.exchange.end}")
                self.heard += piece

    def rest(self):
        """Until the stream has ended; how."""
        while piece := self.exchange.read("the end of the stream"):
            self.heard += piece
        return self.exchange.end

    def leave(self):
        """As when a player is closed."""
        self.exchange.close()
        self.user.close()


def _listeners(user, mount):
    """How many there are; None if there is no such source."""
    text = user.get("/admin/stats", user=_ADMIN).text
    found = re.search(rf'<source mount="{re.escape(mount)}">.*?<listeners>(\d+)</listeners>', text, re.DOTALL)
    return int(found[1]) if found else None


def _wait_for_listeners(user, mount, number):
    user.until(f"{number} listeners", lambda: _listeners(user, mount) == number)


@step
def pages(user):
    """pages, the status in JSON, files, who may not, what is not there"""
    _mask(user)
    # Icecast listens before it knows what it says of itself.
    user.until("what it says of itself", lambda: b'"server_id"' in user.get("/status-json.xsl").body)
    pages = ("/", "/status.xsl", "/status-json.xsl", "/server_version.xsl", "/style.css", "/missing")
    for path in (*pages, "/admin/stats", "/none.mp3.m3u"):
        user.see(path, user.get(path), without=("last-modified",))
    user.see("HEAD", user.request("HEAD", "/style.css"), without=("last-modified",))
    user.see("range", user.get("/style.css", {"Range": "bytes=10-19"}), without=("last-modified",))
    user.see("wrong password", user.get("/admin/listmounts", user=("admin", "wrong")))
    user.see("administration", user.get("/admin/listmounts", user=_ADMIN))
    user.see("a form", user.post("/style.css", form={"a": "b"}), without=("last-modified",))


@step
def station(user):
    """a source (PUT) without an end, two listeners hear each piece as it comes, across a reload; one leaves; a third one comes"""
    _mask(user)
    with _Source(user, "/live.mp3", *_ENDLESS).there() as source:
        one, two = _Listener(user, "/live.mp3"), _Listener(user, "/live.mp3")
        user.see("a listener", one.exchange, body=False)
        _wait_for_listeners(user, "/live.mp3", 2)
        for number in range(6):
            mark = source.send()
            one.hear(mark)
            two.hear(mark)
            if number == 2:
                user.reload()
        user.see("playlist", user.get("/live.mp3.m3u"))
        two.leave()
        # Icecast notices when it has something to send.
        user.until("one listener", lambda: source.send() and _listeners(user, "/live.mp3") == 1)
        three = _Listener(user, "/live.mp3")
        _wait_for_listeners(user, "/live.mp3", 2)
        mark = source.send()
        one.hear(mark)
        three.hear(mark)
        expect(not re.search(rb"[^<piece0-9> x]", one.heard), "something else was heard")
        status = user.get("/status-json.xsl").json()["icestats"]["source"]
        user.note("status", [status["server_name"], status["genre"], status["listeners"], status["server_type"]])
        expect(source.answer.read_bytes() == b"" if source.answer.exists() else True, "the source has got something")
    user.note("the end", [one.rest(), three.rest()])
    user.until("the end of the source", lambda: _listeners(user, "/live.mp3") is None)
    for each in (one, three):
        each.leave()


@step
def silence(user):
    """a source that gets no response for longer than a server may be silent"""
    with _Source(user, "/long.mp3", *_ENDLESS).there() as source:
        listener = _Listener(user, "/long.mp3")
        _wait_for_listeners(user, "/long.mp3", 1)
        began = time.monotonic()
        while time.monotonic() < began + 2 * _SILENCE_S:
            listener.hear(source.send())
        listener.leave()


@step
def titles(user):
    """titles: a change by /admin/metadata is heard within the stream by who asks for it (Icy-MetaData), and by no one else"""
    _mask(user)
    with _Source(user, "/titles.mp3", *_ENDLESS).there() as source:
        plain, titled = _Listener(user, "/titles.mp3"), _Listener(user, "/titles.mp3", {"Icy-MetaData": "1"})
        user.see("a listener", titled.exchange, body=False)
        expect(titled.exchange.one("icy-metaint") == str(_META), "no titles")
        _wait_for_listeners(user, "/titles.mp3", 2)
        change = "/admin/metadata?mount=/titles.mp3&mode=updinfo&charset=UTF-8&song="
        user.see("who may not", user.get(f"{change}x"))
        for number, song in enumerate(("An%20artist%20-%20%C3%A9t%C3%A9%20%26%20more", "Another%20%2B%201")):
            user.see(f"change {number}", user.get(change + song, user=("source", "source-secret")))
            marks = [source.send() for _ in range(8)]
            plain.hear(*marks)
            title = ("An artist - été & more".encode("latin-1"), b"Another + 1")[number]
            titled.hear(b"StreamTitle='" + title + b"'")
            if number == 0:
                user.reload()
        expect(b"StreamTitle" not in plain.heard, "who has not asked has got a title")
        at = titled.heard[_META]
        user.note("what is in between", titled.heard[_META + 1 : _META + 1 + 16 * at].rstrip(b"\0"))
        user.until("the title in the status", lambda: b'"title":"Another + 1"' in user.get("/status-json.xsl").body)
        plain.leave()
        titled.leave()


@step
def others(user):
    """a source by the method SOURCE; one with a wrong password, a mount that is taken; one that is ended by the administration"""
    with _Source(user, "/old.mp3", *_ENDLESS, method="SOURCE").there() as source:
        listener = _Listener(user, "/old.mp3")
        _wait_for_listeners(user, "/old.mp3", 1)
        listener.hear(source.send(), source.send())
        with _Source(user, "/old.mp3", *_ENDLESS) as second:
            user.note("taken", second.status())
        with _Source(user, "/other.mp3", *_ENDLESS, password="wrong") as wrong:
            user.note("wrong password", wrong.status())
        listener.hear(source.send())
        answer = user.get("/admin/killsource?mount=/old.mp3", user=_ADMIN)
        user.note("ended", [answer.status, "Source Removed" in answer.text])
        user.note("the end", listener.rest())
        listener.leave()
