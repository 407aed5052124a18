"""The environment of a WSGI request (PEP 3333), from the meta part and the canonical head of a REQUEST."""

import io
import os
import sys
from urllib.parse import unquote_to_bytes

from .sendfile import FileWrapper

# Clients repeat their header block word for word, so blocks up to this size are parsed once. Bounds the cache to
# 256 x 2 KiB of keys, and a few times that of values.
_CACHED_BLOCK_BYTES_MAX = 2048
_CACHE_ENTRIES_MAX = 256
BODY_BUFFER_BYTES = 64 * 1024


# A function that sends 103 Early Hints, as gunicorn has it.
EARLY_HINTS = "wsgi.early_hints"


class BodyFile(io.RawIOBase):
    """A body in a file. It is read by position: the descriptor's own position is shared with others."""

    def __init__(self, descriptor):
        super().__init__()
        self._descriptor = descriptor
        self._at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, buffer):
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset, whence=os.SEEK_SET):
        if whence == os.SEEK_CUR:
            offset += self._at
        elif whence == os.SEEK_END:
            offset += os.fstat(self._descriptor).st_size
        if offset < 0:
            raise ValueError(f"negative position {offset}")
        self._at = offset
        return offset


class EnvironBuilder:
    """Builds environments; keeps what repeats from request to request. `more` is the same for every request."""

    def __init__(self, more=()):
        self._more = dict(more)
        self._bases = {}
        self._blocks = {}

    def base(self, meta):
        """What all requests with this meta part have in common."""
        return {**_base(meta), **self._more}

    @staticmethod
    def below(path, mount):
        """What of `path` is below `mount`, in characters that are not decoded yet, and the name of the script."""
        path, script = _below(path, mount)
        return unquote_to_bytes(path).decode("latin-1") if "%" in path else path, script

    @staticmethod
    def file_input(descriptor):
        """`wsgi.input` of a body in a file."""
        return io.BufferedReader(BodyFile(descriptor), BODY_BUFFER_BYTES)

    def build(self, meta, head, body, body_file, http10):
        """A new environment. `meta`, `head` and `body` are the bytes of the REQUEST; `body_file` is None or the descriptor of
        a body that is too large for one."""
        # queue_us is the last line and differs each time; the rest stays the same for a connection.
        cut = meta.rfind(b"\nqueue_us=")
        if cut >= 0:
            meta = meta[:cut]
        base = self._bases.get(meta)
        if base is None:
            base = _keep(self._bases, meta, self.base(meta))
        line_end = head.find(b"\r\n")
        block = head[line_end + 2 : -4]
        # Likewise: x-request-id and what follows it come last, and differ each time.
        cut = block.rfind(b"\r\nx-request-id: ")
        own = {}
        if cut >= 0:
            own = _fields(block[cut + 2 :])
            block = block[:cut]
        fields = self._blocks.get(block)
        if fields is None:
            fields = _fields(block)
            if len(block) <= _CACHED_BLOCK_BYTES_MAX and not body and body_file is None:
                _keep(self._blocks, block, fields)
        method, target, _ = head[:line_end].decode("latin-1").split(" ")
        path, _, query = target.partition("?")
        environ = base.copy()
        environ.update(fields)
        environ.update(own)
        mount = environ["SCRIPT_NAME"]
        if mount:
            path, environ["SCRIPT_NAME"] = self.below(path, mount)
        elif "%" in path:
            path = unquote_to_bytes(path).decode("latin-1")
        environ["REQUEST_METHOD"] = method
        environ["PATH_INFO"] = path
        environ["QUERY_STRING"] = query
        # As it was asked for, which gunicorn and werkzeug have under these names.
        environ["RAW_URI"] = environ["REQUEST_URI"] = target
        if body_file is None:
            environ["wsgi.input"] = io.BytesIO(body)
        else:
            environ["wsgi.input"] = self.file_input(body_file)
        if http10:
            environ["SERVER_PROTOCOL"] = "HTTP/1.0"
        return environ


def _keep(cache, key, value):
    if len(cache) >= _CACHE_ENTRIES_MAX:
        cache.clear()
    cache[key] = value
    return value


def _below(path, mount):
    """What of `path` is below `mount`, and the mount; without one if the path is elsewhere."""
    if path.startswith(mount) and path[len(mount) : len(mount) + 1] in ("", "/"):
        return path[len(mount) :], unquote_to_bytes(mount).decode("latin-1")
    return path, ""


def address_of(text):
    """IP and port of `IP:port` or `[IP]:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port


def meta_of(meta):
    """The meta part as a dictionary."""
    values = {}
    for line in meta.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition("=")
        values[key] = value
    return values


def _base(meta):
    """The environment that is the same for all requests with this meta part."""
    values = meta_of(meta)
    remote, remote_port = address_of(values.get("remote", ""))
    local, local_port = address_of(values.get("local", ""))
    # What stands for it says only that there is one: it differs from request to request.
    hints = {EARLY_HINTS: True} if values.get("early_hints") == "1" else {}
    return {
        **hints,
        **_user(values),
        "SCRIPT_NAME": values.get("mount", ""),
        "REMOTE_ADDR": remote,
        "REMOTE_PORT": remote_port,
        "SERVER_NAME": local or "localhost",
        "SERVER_PORT": local_port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": "maitred",
        "GATEWAY_INTERFACE": "CGI/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": values.get("scheme", "http"),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        "wsgi.file_wrapper": FileWrapper,
    }


def _user(values):
    """REMOTE_USER and AUTH_TYPE (RFC 3875), if Maitred has found out who the user is: there is no other way to them. Their bytes are
    characters, as all text in an environ (PEP 3333)."""
    user = values.get("user")
    if not user:
        return {}
    found = {"REMOTE_USER": user, "AUTH_TYPE": values.get("auth_type")}
    return {key: value.encode().decode("latin-1") for key, value in found.items() if value}


def _fields(block):
    """HTTP_* and CONTENT_* of a header block: lines `name: value` in lower case, as Maitred writes them."""
    fields = {}
    if not block:
        return fields
    for line in block.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(": ")
        # x_forwarded_for and x-forwarded-for would be the same variable, and the client could choose which one wins.
        if "_" in name:
            continue
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = "HTTP_" + key
        if key in fields:
            # 9110-5.3: repeated fields are one list; 6265-5.4: cookies are joined by a semicolon.
            value = fields[key] + ("; " if key == "HTTP_COOKIE" else ", ") + value
        fields[key] = value
    return fields
