"""The head of a response, and the framing of its body as the request requires (adapters/PROTOCOL.md, "The response")."""

import re
from email.utils import formatdate
from time import monotonic, time
from typing import NamedTuple, Optional

from . import log
from .frames import HEAD, HTTP10, KEEP

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(r"[2-9][0-9][0-9]( [^\x00-\x08\x0a-\x1f\x7f]*)?")
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
# What `Connection` may name without effect: these are the adapter's.
_KEPT = _HOP_BY_HOP | {"date", "server"}
# Of one informational response, and of one request (PROTOCOL.md, "Informational responses").
_INFORMATIONAL_BYTES_MAX = 16 * 1024
INFORMATIONAL_MAX = 16
_WHITE_SPACE = " \t"
_CACHE_ENTRIES_MAX = 256
_CACHED_HEAD_BYTES_MAX = 1024
_CONNECTION = {
    KEEP: b"\r\n",
    KEEP | HTTP10: b"Connection: keep-alive\r\n\r\n",
    0: b"Connection: close\r\n\r\n",
    HTTP10: b"Connection: close\r\n\r\n",
}
_CONNECTION_UPGRADE = {
    KEEP: b"Connection: upgrade\r\n\r\n",
    KEEP | HTTP10: b"Connection: keep-alive, upgrade\r\n\r\n",
    0: b"Connection: close, upgrade\r\n\r\n",
    HTTP10: b"Connection: close, upgrade\r\n\r\n",
}


class Head(NamedTuple):
    """What an application has said before the body."""

    # Status line and fields, without framing and without the empty line.
    lines: bytes
    status: int
    # The Content-Length, if one was stated.
    length: Optional[int]
    # Whether a Date was stated.
    dated: bool
    # The file that X-Sendfile names. The field is one of `lines`.
    sendfile: Optional[str] = None
    # Whether there is an Upgrade, which Connection has to name.
    upgrade: bool = False

    def bytes(self, framing, flags):
        """The complete head; `flags` are those of the REQUEST."""
        connection = (_CONNECTION_UPGRADE if self.upgrade else _CONNECTION)[flags & (KEEP | HTTP10)]
        if self.dated:
            return b"".join((self.lines, framing, connection))
        return b"".join((self.lines, _date.line(), framing, connection))

    def bodiless(self, flags):
        """Whether the response has no body, whatever the application writes."""
        return bool(flags & HEAD) or self.status == 204 or self.status == 304

    def length_line(self):
        """For responses without a body: the length that GET would have had, which 204 must not state (9110-8.6)."""
        if self.length is None or self.status == 204:
            return b""
        return b"Content-Length: %d\r\n" % self.length


class _Date:
    """The Date field, formatted once per second."""

    def __init__(self):
        self._line = b""
        self._until = 0.0

    def line(self):
        now = monotonic()
        if now >= self._until:
            wall = time()
            self._line = b"Date: %s\r\n" % formatdate(wall, usegmt=True).encode()
            self._until = now + 1 - wall % 1
        return self._line


_date = _Date()
# The heads of `prepared`; those without a Server of ours stand apart.
_known, _known_anonymous = {}, {}
# Stands in the meta part if responses whose application names no server are to name none.
ANONYMOUS = b"server_header=0\n"


def is_anonymous(meta):
    """Whether a response whose application names no server has no Server at all, by the meta part of its request."""
    # What is found may be the end of a value, such as the user's name.
    return meta.find(ANONYMOUS) >= 0 and b"\n" + ANONYMOUS in b"\n" + meta


def field_line(name, value):
    """One field as text. Raises ValueError or TypeError for what may not be sent."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header field is not a pair of str: {name!r}: {value!r}")
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"not the name of a header field: {name!r}")
    if "\r" in value or "\n" in value or "\0" in value:
        raise ValueError(f"the value of {name} holds a line break or NUL: {value!r}")
    # White space around it is no part of the value (9110-5.5).
    return f"{name}: {value.strip(_WHITE_SPACE)}"


def concerns_the_connection(name):
    """Whether a field is the server's business alone, so that it is dropped. It is said once for each name: many applications
    set such fields, and every HTTP server puts up with it."""
    if name.lower() not in _HOP_BY_HOP:
        return False
    log.drop(name)
    return True


def _without(lines, options):
    """Lines of fields without those that Connection names (9110-7.6.1)."""
    left = []
    for line in lines:
        name = line.partition(":")[0]
        if name.lower() in options:
            log.drop(name)
        else:
            left.append(line)
    return left


def informational(status, headers):
    """A complete 1xx head, or nothing if it would be too long. Raises ValueError or TypeError for what may not be sent."""
    lines = [f"HTTP/1.1 {status}"]
    for name, value in headers:
        # gunicorn takes both.
        name, value = (text.decode("latin-1") if isinstance(text, bytes) else text for text in (name, value))
        line = field_line(name, value)
        if name.lower() != "content-length" and not concerns_the_connection(name):
            lines.append(line)
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if len(head) <= _INFORMATIONAL_BYTES_MAX else b""


def prepare(status, headers, anonymous=False):
    """A Head of `200 OK` and pairs of str; with `anonymous` it has a Server only if that is among them. Raises ValueError or
    TypeError for what may not be sent."""
    if not isinstance(status, str) or not _STATUS.fullmatch(status):
        raise ValueError(f"not a status of a response: {status!r}")
    number, _, reason = status.partition(" ")
    lines = [f"HTTP/1.1 {number} {reason}"]
    length, dated, server, sendfile, upgrade, options = None, False, False, None, False, ()
    for name, value in headers:
        line = field_line(name, value)
        lower = name.lower()
        if lower == "content-length":
            value = value.strip(_WHITE_SPACE)
            # One that is repeated is one (9110-8.6).
            if not (value.isascii() and value.isdigit()) or length not in (None, int(value)):
                raise ValueError(f"a bad Content-Length, or another one: {value!r}")
            length = int(value)
            continue
        if lower in _HOP_BY_HOP:
            if lower == "upgrade" and number == "426":
                # What the client is to upgrade to (9110-15.5.22).
                upgrade = True
                lines.append(line)
                continue
            if lower == "connection":
                options = {*options, *(option.strip().lower() for option in value.split(","))} - _KEPT
            log.drop(name)
            continue
        if lower == "x-sendfile":
            sendfile = value.strip(_WHITE_SPACE)
        dated = dated or lower == "date"
        server = server or lower == "server"
        lines.append(line)
    if options:
        lines[1:] = _without(lines[1:], options)
    if not (server or anonymous):
        lines.append("Server: maitred")
    lines.append("")
    return Head("\r\n".join(lines).encode("latin-1"), int(number), length, dated, sendfile, upgrade)


def prepared(status, headers, anonymous=False):
    """As `prepare`, which most applications need only for a few different heads."""
    try:
        key = (status, tuple(headers))
        known = _known_anonymous if anonymous else _known
        found = known.get(key)
    except TypeError:  # Lists instead of tuples: allowed by no text, but seen.
        return prepare(status, headers, anonymous)
    if found is None:
        found = prepare(status, headers, anonymous)
        if len(found.lines) <= _CACHED_HEAD_BYTES_MAX:
            if len(known) >= _CACHE_ENTRIES_MAX:
                known.clear()
            known[key] = found
    return found
