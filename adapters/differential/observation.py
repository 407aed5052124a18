"""What is seen of a response, here and by the real applications of trials/, and how a comparison fails. Standard library only."""

import hashlib
import re

_EXPIRES = re.compile(r"expires=[A-Z][a-z]{2}, [^;|]+ GMT", re.IGNORECASE)


class Failure(AssertionError):
    """A server, or an application, does not do what its user needs; the text says what."""


def expect(condition, text):
    """Fails with `text` unless `condition` holds."""
    if not condition:
        raise Failure(text)


class Fields:
    """Something with `fields`: pairs of a name in lower case and a value."""

    def all(self, name):
        """Every value of a field, in their order."""
        return [value for key, value in self.fields if key == name]

    def one(self, name):
        """The only value of a field, None if there is none. Raises Failure if there are several."""
        values = self.all(name)
        expect(len(values) <= 1, f"{name} stands {len(values)} times")
        return values[0] if values else None


def joined(values):
    """All values of a field as one text, without the time of day, which differs in any case."""
    return _EXPIRES.sub("expires=(a time)", " | ".join(values))


def digest(data):
    """What is reported of a large body."""
    return f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"
