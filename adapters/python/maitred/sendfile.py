"""Files as responses: what `wsgi.file_wrapper` wraps, and what `X-Sendfile` names."""

import os
import stat

# A file up to this size is read and sent with the head, which is cheaper than passing it.
INLINE_BYTES_MAX = 64 * 1024


class FileWrapper:
    """`wsgi.file_wrapper`: an iterable of a file's blocks, which is sent as a file where it is one."""

    def __init__(self, filelike, blksize=64 * 1024):
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self):
        return iter(lambda: self.filelike.read(self.blksize), b"")

    def region(self):
        """`(descriptor, offset, bytes)` from where the file stands to its end; None if it is no regular file."""
        try:
            descriptor = self.filelike.fileno()
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return None
            offset = self.filelike.tell()
        except (AttributeError, OSError, ValueError):
            return None
        return descriptor, offset, max(found.st_size - offset, 0)


def open_regular(path):
    """`(descriptor, bytes)` of a regular file. Raises OSError."""
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise OSError(f"not a regular file: {path!r}")
    return descriptor, found.st_size


def open_below(path, root):
    """The same for the value of X-Sendfile, which has to lead to a file below `root`. Raises OSError."""
    if not path.startswith("/"):
        raise OSError(f"X-Sendfile: not an absolute path: {path!r}")
    # A field's value is text only for the interface.
    found, top = os.path.realpath(path.encode("latin-1")), os.path.realpath(root.encode())
    if _is_below(found, top):
        descriptor, file_bytes = open_regular(found)
        if _is_below(_opened(descriptor, found), top):
            return descriptor, file_bytes
        os.close(descriptor)
    raise OSError(f"X-Sendfile: {path!r} is not below sendfile_root, {root!r}")


def _is_below(path, top):
    return path.startswith(top.rstrip(b"/") + b"/")


def _opened(descriptor, path):
    """Where a file was found: a directory of its path may have become a link in the meantime."""
    try:
        return os.readlink(b"/proc/self/fd/%d" % descriptor)
    except OSError:  # No /proc here.
        return path


def read_all(descriptor, offset, length):
    """Exactly these bytes. Raises OSError if the file has become shorter."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            raise OSError("a file became shorter while it was sent")
        data += more
    return data
