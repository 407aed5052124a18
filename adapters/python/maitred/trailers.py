"""Fields behind the content of a response (adapters/PROTOCOL.md, "Trailers")."""

from . import log
from .frames import HEAD, HTTP10
from .head import field_line

# Those that mean something else, or nothing, there (9110-6.5.1): NOT_IN_TRAILERS of the crate maitred-handoff.
_NOT_IN_TRAILERS = frozenset(
    (
        "connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade",
        "authentication-info", "authorization", "cookie", "forwarded", "proxy-authenticate", "proxy-authentication-info",
        "proxy-authorization", "set-cookie", "www-authenticate", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
        "cache-control", "expect", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
        "max-forwards", "pragma", "priority", "range",
        "age", "date", "expires", "location", "retry-after", "vary", "warning",
        "content-disposition", "content-encoding", "content-language", "content-location", "content-range", "content-type",
    )
)  # fmt: skip
_FIELDS_MAX = 32
_BYTES_MAX = 8190


class Trailers:
    """Those of one response, which may come in pieces."""

    def __init__(self):
        self._lines = []
        self._bytes = 0
        self._fields = 0

    def add(self, headers):
        """Pairs of bytes. Raises ValueError or TypeError for what may not be sent."""
        for name, value in headers:
            line = field_line(bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
            self._take(line.encode("latin-1") + b"\r\n")

    def section(self):
        """All of them, as they follow the last chunk."""
        if self._fields > _FIELDS_MAX or self._bytes > _BYTES_MAX:
            log.leave_out(f"{self._fields} trailers of {self._bytes} bytes: they are too many")
            return b""
        return b"".join(self._lines)

    def _take(self, line):
        name = line.partition(b":")[0].decode("latin-1")
        if name.lower() in _NOT_IN_TRAILERS:
            log.leave_out(f"the trailer {name}: a field of this name does not stand behind content")
            return
        self._fields += 1
        self._bytes += len(line)
        # What is too much is counted, and not kept.
        if self._fields <= _FIELDS_MAX and self._bytes <= _BYTES_MAX:
            self._lines.append(line)


def can_follow(meta, flags, status):
    """Whether trailers reach the client behind a body of no stated length; `meta` holds what the REQUEST says."""
    return meta.get("trailers") == "1" and not flags & (HEAD | HTTP10) and status not in (204, 304)


def announced(headers):
    """Takes the fields `Trailer` out of pairs of str; returns the others, and those as bytes. Raises ValueError."""
    others, found = [], b""
    for name, value in headers:
        if name.lower() == "trailer":
            found += field_line(name, value).encode("latin-1") + b"\r\n"
        else:
            others.append((name, value))
    return others, found
