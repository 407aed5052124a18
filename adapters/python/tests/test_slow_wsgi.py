"""How much of a response the adapter keeps for a client that reads slowly, and how long it waits for one."""

import logging
import os
import socket
import subprocess
import sys
import threading
import unittest
from unittest import mock

from maitred import tail
from maitred.wsgi import Channel
from maitred.frames import CLEAN
from maitred.wsgi import serve
from tests.frames import WELCOME_FRAME, Reported, request_frame, small_pair
from tests.test_wsgi import Closing, Exchange, answering


class Heard(logging.Handler):
    """What the adapter's logger says; `event` is set by the first of it."""

    def __init__(self, case):
        super().__init__(logging.WARNING)
        self.lines, self.event = [], threading.Event()
        logger = logging.getLogger("maitred")
        logger.addHandler(self)
        case.addCleanup(logger.removeHandler, self)

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.event.set()


class WholeBodies(unittest.TestCase):
    """A body that is one piece is in the application's memory already."""

    def test_its_rest_goes_to_a_file_without_a_copy(self):
        body, given = os.urandom(1_000_000), []
        spool = tail.Tail._put_away

        def put_away(self, rest):
            given.append(rest.obj)
            spool(self, rest)

        with mock.patch.object(tail.Tail, "_put_away", put_away):
            found = Exchange(answering([body]), reads=False)
        self.assertEqual((found.body, found.done.flags), (body, CLEAN))
        self.assertEqual([piece is body for piece in given], [True])


class KeptForSlowClients(unittest.TestCase):
    """How much of a response is kept for a client that reads slowly."""

    def setUp(self):
        self.heard = Heard(self)
        self.limit(1_000_000)

    def limit(self, count):
        budget = getattr(tail, "_budget", None)
        if budget is not None:
            self.addCleanup(setattr, budget, "limit", budget.limit)
            budget.limit = count

    def pieces_for_a_late_reader(self, count):
        """A response of `count` pieces, whose client reads nothing before the adapter has said that it waits for it."""
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        pieces = [os.urandom(100_000) for _ in range(count)]
        got, reports = [], []

        def read():
            self.heard.event.wait(20)
            while data := near.recv(65536):
                got.append(data)

        socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 0, descriptors=1)], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        far.close()
        threads = [threading.Thread(target=read), threading.Thread(target=lambda: reports.append(Reported(ours)))]
        for thread in threads:
            thread.start()
        worker = Channel(theirs)
        serve(worker, answering(iter(pieces), [("Content-Length", str(100_000 * count))]))
        worker.close()
        for thread in threads:
            thread.join()
        near.close()
        ours.close()
        (found,) = reports
        whole = b"".join(got) + found.tail
        self.assertTrue(whole.partition(b"\r\n\r\n")[2] == b"".join(pieces))
        self.assertEqual([done.flags for done in found.dones], [CLEAN])
        return found

    def test_a_stream_over_the_limit_waits_for_its_client(self):
        found = self.pieces_for_a_late_reader(200)
        self.assertLessEqual(len(found.tail), 1_300_000)
        self.assertEqual(len(self.heard.lines), 1)
        self.assertIn("MAITRED_SPOOL_MIB", self.heard.lines[0])
        self.assertEqual(tail._budget.taken, 0)

    def test_what_other_responses_keep_counts_too(self):
        self.assertTrue(tail._budget.take(900_000))
        self.addCleanup(tail._budget.give_back, 900_000)
        self.pieces_for_a_late_reader(20)
        self.assertEqual((len(self.heard.lines), tail._budget.taken), (1, 900_000))

    def test_a_full_disk_makes_it_wait_too(self):
        class Full(tail._Spool):
            """Takes half of what it is given."""

            def write(self, rest, partly):
                self.full = super().write(rest[: len(rest) // 2], partly)
                return rest[len(rest) // 2 :]

        real, tail._Spool = tail._Spool, Full
        self.addCleanup(setattr, tail, "_Spool", real)
        self.pieces_for_a_late_reader(20)
        self.assertIn("no room for a file", self.heard.lines[0])

    def test_a_client_that_takes_nothing_meanwhile_is_given_up(self):
        if hasattr(tail, "_WAIT_S"):
            self.addCleanup(setattr, tail, "_WAIT_S", tail._WAIT_S)
            tail._WAIT_S = 0.02
        body = Closing([b"x" * 100_000] * 300)
        found = Exchange(answering(body), reads=False)
        self.assertEqual((found.done.flags, found.done.status, body.closed), (0, 200, 1))
        self.assertEqual(found.reports.tails, [])
        self.assertIn("response aborted", self.heard.lines[-1])
        self.assertEqual((found.log.getvalue(), tail._budget.taken), ("", 0))

    def test_a_stream_whose_socket_was_full_goes_on_when_its_client_does(self):
        """Maitred sends nothing of a TAIL before DONE, which may never come."""
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        full, all_read = threading.Event(), threading.Event()

        def pieces():
            for _ in range(30):
                yield b"x" * 30_000
            full.set()
            # Events, which make the adapter try the socket again.
            for _ in range(400):
                if all_read.wait(0.05):
                    return
                yield b"."

        def read():
            full.wait(20)
            count = 0
            while data := near.recv(65536):
                count += data.count(b"x")
                if count == 900_000:
                    all_read.set()

        socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 0, descriptors=1)], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        far.close()
        threads = [threading.Thread(target=read), threading.Thread(target=Reported, args=(ours,))]
        for thread in threads:
            thread.start()
        worker = Channel(theirs)
        serve(worker, answering(pieces()))
        worker.close()
        for thread in threads:
            thread.join()
        near.close()
        ours.close()
        self.assertTrue(all_read.is_set())

    def test_the_limit_is_a_setting(self):
        def run(value):
            command = [sys.executable, "-c", "from maitred import tail; print(tail._budget.limit)"]
            environment = {**os.environ, "MAITRED_SPOOL_MIB": value}
            found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            return found.returncode, found.stdout or found.stderr

        self.assertEqual(run("7"), (0, f"{7 << 20}\n"))
        self.assertEqual(run("0"), (0, "0\n"))
        for value in ("", "-1", "much", "1e3", "99999999999"):
            status, text = run(value)
            self.assertEqual(status, 1)
            self.assertIn(f"MAITRED_SPOOL_MIB={value!r}", text)
