"""Clients that keep a server busy while something happens to it. Standard library only."""

import threading

from client import Failure, expect

# Bounds how long a broken server can hold a test up.
_DEADLINE_S = 60


def request(target, method="GET", host="test.example", fields=(), body=None):
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in fields)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def ask(connection, target, method="GET", **options):
    """One request, and its response."""
    connection.send(request(target, method, **options))
    return connection.response(method)


class Load:
    """Clients that ask without a pause, each on one connection of its own, which is opened again only after a failure.

    `failures` has a line for each request that was not answered as it should be.
    """

    def __init__(self, connect, asked, clients=6):
        """`connect` opens a connection; `asked` has the requests: target, body (None: GET) and expected body of the answer."""
        self._connect, self._asked, self._ends, self._changed = connect, asked, False, threading.Condition()
        self.answered, self.failures = 0, []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ends = True
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        while not self._ends:
            try:
                with self._connect() as connection:
                    self._ask_on(connection, number)
            except (Failure, OSError) as error:
                with self._changed:
                    self.failures.append(repr(error))

    def _ask_on(self, connection, number):
        count = number
        while not self._ends:
            target, body, wanted = self._asked[count % len(self._asked)]
            found = ask(connection, target, "GET" if body is None else "POST", body=body)
            expect(found.status == 200, f"{target} after {len(body or b'')} bytes: {found.status} {found.body!r}")
            expect(wanted is None or found.body == wanted, f"{target}: {found.body!r}")
            expect(found.one("connection") is None, f"{target}: Connection: {found.one('connection')}")
            count += 1
            with self._changed:
                self.answered += 1
                self._changed.notify_all()

    def more(self, count):
        """Waits until so many more requests were answered. Raises AssertionError if they are not."""
        with self._changed:
            wanted = self.answered + count
            if not self._changed.wait_for(lambda: self.answered >= wanted, _DEADLINE_S):
                raise AssertionError(f"{wanted - self.answered} answers are missing; {self.failures}")
