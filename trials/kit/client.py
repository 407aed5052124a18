"""A client of HTTP/1.1 and HTTP/2 that sees every field, and every piece of a body as it comes: libcurl, as curl has it."""

import io
import json
import ssl
import time
import urllib.parse

import pycurl
from observation import Fields

from .steps import Failure, Late, expect

# How long nothing may come. The applications here answer within a second; a loaded machine takes longer.
SILENCE_S = 40
_BOUNDARY = "----trials-of-applications"


class Response(Fields):
    """A whole response. `end` is "complete", or says how it was cut."""

    def __init__(self, exchange, body, end):
        self.version, self.status, self.reason = exchange.version, exchange.status, exchange.reason
        self.fields, self.body, self.end = exchange.fields, body, end

    @property
    def text(self):
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self):
        """What the body says in JSON. Raises Failure."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Failure(f"status {self.status}, and no JSON: {self.text[:300]!r}") from error


class Exchange(Fields):
    """One request, and its response while it comes."""

    def __init__(self, client, what, easy):
        self._client, self._what, self._easy = client, what, easy
        self.version = self.reason = None
        self.status, self.fields, self.interim, self.trailers = 0, [], [], []
        self._head_over, self.end = False, None
        self._pieces = []
        easy.setopt(pycurl.HEADERFUNCTION, self._on_header)
        easy.setopt(pycurl.WRITEFUNCTION, self._on_data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _on_header(self, line):
        text = line.decode("latin-1").rstrip("\r\n")
        if text.startswith("HTTP/"):
            if self.status and self.status < 200:
                self.interim.append((self.status, self.fields))
            version, _, rest = text.partition(" ")
            status, _, reason = rest.partition(" ")
            self.version, self.status, self.reason, self.fields = version, int(status), reason, []
            self._head_over = False
        elif text:
            name, _, value = text.partition(":")
            fields = self.trailers if self._head_over else self.fields
            fields.append((name.lower(), value.strip(" \t")))
        else:
            self._head_over = self.status >= 200

    def _on_data(self, data):
        self._pieces.append(data)

    def ended(self, text):
        """Told by the client when libcurl is done with it."""
        self.end = text

    def sent(self):
        """Waits until the request is on its way, so that what follows happens while it is answered."""
        self._client.drive(lambda: self._easy.getinfo(pycurl.PRETRANSFER_TIME) > 0 or self.end, f"{self._what}: a connection")
        return self

    def head(self):
        """Waits until the head of the response is there. Raises Failure."""
        self._client.drive(lambda: self._head_over or self.end, f"{self._what}: the head of the response")
        expect(self._head_over, f"{self._what}: {self.end}")
        return self

    def read(self, what="a piece of the body"):
        """The next piece of the body; empty at its end."""
        self._client.drive(lambda: self._pieces or self.end, f"{self._what}: {what}")
        return self._pieces.pop(0) if self._pieces else b""

    def lines(self):
        """Every line of the body, as soon as it is there."""
        data = b""
        while piece := self.read(f"a line after {data[-200:]!r}"):
            *lines, data = (data + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r")
        if data:
            yield data.decode("utf-8", "replace")

    def events(self):
        """Every server-sent event, as a list of (field, value); comments have an empty field."""
        event = []
        for line in self.lines():
            if not line and event:
                yield event
                event = []
            elif line:
                name, _, value = line.partition(":")
                event.append((name, value.removeprefix(" ")))

    def whole(self):
        """The response when it is over. Raises Failure."""
        self.head()
        pieces = []
        while piece := self.read():
            pieces.append(piece)
        return Response(self, b"".join(pieces), self.end)

    def close(self):
        """Goes away, if it is not over: as a browser's stop button."""
        self._client.forget(self._easy)


class Client:
    """Connections and cookies of one user. Over HTTP/2 everything goes over one connection, as a browser's does."""

    def __init__(self, base, protocol, authority):
        self.base, self._protocol, self._authority = base, protocol, authority
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        self._exchanges = {}

    def start(self, method, path, fields=None, body=None, **how):
        """Sends a request, and waits for nothing: an Exchange. `body`: bytes, or an iterator of bytes (in chunks then).
        `how`: json, form or files instead of a body; user=(name, password); follow=True for redirects."""
        body, more = _body(body, **{name: how.pop(name, None) for name in ("json", "form", "files")})
        url = urllib.parse.urljoin(self.base + "/", path) if not path.startswith("/") else self.base + path
        easy = pycurl.Curl()
        easy.setopt(pycurl.URL, url)
        easy.setopt(pycurl.PATH_AS_IS, 1)
        easy.setopt(pycurl.SHARE, self._share)
        easy.setopt(pycurl.COOKIEFILE, "")
        easy.setopt(pycurl.USERAGENT, "trials")
        easy.setopt(pycurl.NOSIGNAL, 1)
        easy.setopt(pycurl.NOPROXY, "*")
        easy.setopt(pycurl.FOLLOWLOCATION, int(how.pop("follow", False)))
        if user := how.pop("user", None):
            easy.setopt(pycurl.USERPWD, ":".join(user))
        expect(not how, f"no such way to ask: {', '.join(how)}")
        self._secure(easy)
        _send(easy, method, body)
        given = {**more, **(fields or {})}
        # Curl's spelling: a field with an empty value has a semicolon.
        easy.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" if value else f"{name};" for name, value in given.items()])
        exchange = Exchange(self, f"{method} {url}", easy)
        self._exchanges[easy] = exchange
        self._multi.add_handle(easy)
        self._multi.perform()
        return exchange

    def _secure(self, easy):
        version = pycurl.CURL_HTTP_VERSION_1_1
        if self._protocol == "https/2":
            version = pycurl.CURL_HTTP_VERSION_2TLS
            # A connection that is being made is waited for, so that there is one for all.
            easy.setopt(pycurl.PIPEWAIT, 1)
        easy.setopt(pycurl.HTTP_VERSION, version)
        if self._authority:
            easy.setopt(pycurl.CAINFO, str(self._authority))

    def request(self, method, path, fields=None, body=None, **how):
        """A request and its whole response."""
        with self.start(method, path, fields, body, **how) as exchange:
            response = exchange.whole()
        if self._protocol == "https/2" and not how.get("follow"):
            expect(response.version == "HTTP/2", f"{path} came by {response.version}")
        return response

    def drive(self, satisfied, what):
        """Lets everything go on until a condition holds. Raises Late when nothing has come for SILENCE_S seconds."""
        late = time.monotonic() + SILENCE_S
        while True:
            self._multi.perform()
            self._note_ends()
            if satisfied():
                return
            if time.monotonic() > late:
                raise Late(f"waited {SILENCE_S} s for {what}")
            self._multi.select(0.1)

    def _note_ends(self):
        left = True
        while left:
            left, good, bad = self._multi.info_read()
            for easy in good:
                self._exchanges[easy].ended("complete")
            for easy, number, text in bad:
                self._exchanges[easy].ended(f"cut: {text} ({number})")

    def forget(self, easy):
        """Takes a request out; its connection ends, or its stream is reset, unless it is over."""
        if self._exchanges.pop(easy, None) is not None:
            self._multi.remove_handle(easy)
            easy.close()

    def close(self):
        """Ends all connections."""
        for easy in list(self._exchanges):
            self.forget(easy)
        self._multi.close()

    def cookies(self):
        """Names and values that the application has set."""
        easy = pycurl.Curl()
        easy.setopt(pycurl.SHARE, self._share)
        easy.setopt(pycurl.COOKIEFILE, "")
        found = {line.split("\t")[5]: line.split("\t")[6] for line in easy.getinfo(pycurl.INFO_COOKIELIST)}
        easy.unsetopt(pycurl.SHARE)
        easy.close()
        return found


def context(authority):
    """For clients that take a context of TLS: the authority is trusted."""
    return ssl.create_default_context(cafile=str(authority))


def _body(body, json=None, form=None, files=None):
    """Bytes (or an iterator) and the fields that say what they are."""
    if json is not None:
        return _dumped(json), {"Content-Type": "application/json"}
    if files is not None:
        return _multipart(form or {}, files), {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
    if form is not None:
        return urllib.parse.urlencode(form).encode(), {"Content-Type": "application/x-www-form-urlencoded"}
    return body, {}


def _dumped(value):
    return json.dumps(value).encode()


def _multipart(form, files):
    """`files`: names of fields to (file name, bytes, type)."""
    parts = [(f'name="{name}"', b"", value.encode()) for name, value in form.items()]
    for name, (file, data, kind) in files.items():
        parts.append((f'name="{name}"; filename="{file}"', f"Content-Type: {kind}\r\n".encode(), data))
    pieces = []
    for name, kind, data in parts:
        pieces += [f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {name}\r\n".encode(), kind, b"\r\n", data, b"\r\n"]
    return b"".join([*pieces, f"--{_BOUNDARY}--\r\n".encode()])


def _send(easy, method, body):
    if method == "HEAD":
        easy.setopt(pycurl.NOBODY, 1)
    elif body is None:
        easy.setopt(pycurl.CUSTOMREQUEST, method)
    else:
        easy.setopt(pycurl.UPLOAD, 1)
        easy.setopt(pycurl.CUSTOMREQUEST, method)
        if isinstance(body, bytes):
            easy.setopt(pycurl.INFILESIZE_LARGE, len(body))
            easy.setopt(pycurl.READFUNCTION, io.BytesIO(body).read)
        else:
            easy.setopt(pycurl.READFUNCTION, _Pieces(body).read)


class _Pieces:
    """What an iterator gives, in the sizes that libcurl asks for."""

    def __init__(self, pieces):
        self._pieces, self._data = iter(pieces), b""

    def read(self, count):
        if not self._data:
            self._data = next(self._pieces, b"")
        piece, self._data = self._data[:count], self._data[count:]
        return piece
