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
        raise OSError(f"X-Sendfile: not a regular file: {path!r}")
    return descriptor, found.st_size


def read_all(descriptor, offset, length):
    """Exactly these bytes. Raises OSError if the file has become shorter."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            raise OSError("a file became shorter while it was sent")
        data += more
    return data
