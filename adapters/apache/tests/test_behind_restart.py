"""Apache behind the real Maitred: what clients notice when it restarts, loses a process, or is away."""

import os
import signal
import unittest
from pathlib import Path

import front  # first: it knows where `load` is
import server
from conformance import MPMS
from load import request

RESTARTS = 5


def setUpModule():
    why = front.missing()
    if why is not None:
        raise unittest.SkipTest(why)


def sleeps(pid):
    """Whether a process waits for something, as proc_pid_stat(5) has it."""
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "S"


class Restart(unittest.TestCase):
    def test_graceful_restarts_cost_no_client_a_request_or_its_connection(self):
        for mpm, transport in (("prefork", "direct"), ("prefork", "relay"), ("event", "direct"), ("event", "relay")):
            with self.subTest(f"{mpm}, {transport}"), server.Apache(mpm, MPMS[mpm] + server.REFERENCE) as apache:
                pool = f'workers = 4\ntransport = "{transport}"'
                with front.Maitred(apache, pool) as maitred, front.load(maitred) as load:
                    load.more(100)
                    for _ in range(RESTARTS):
                        before = set(apache.children())
                        apache.reload()
                        apache.wait_for(lambda: not before & set(apache.children()), "the old processes to leave")
                        load.more(50)
                    self.assertEqual(load.failures, [], maitred.log())

    def test_processes_that_leave_after_some_requests_cost_none(self):
        limits = MPMS["prefork"] + "MaxConnectionsPerChild 20\n"
        with server.Apache("prefork", limits + server.REFERENCE) as apache:
            first = set(apache.children())
            with front.Maitred(apache) as maitred, front.load(maitred) as load:
                load.more(400)
                self.assertEqual(load.failures, [], maitred.log())
            self.assertFalse(first & set(apache.children()))

    def test_a_process_that_is_killed_costs_only_the_requests_that_it_had(self):
        clients = 6
        for mpm in ("prefork", "event"):
            with self.subTest(mpm), server.Apache(mpm, MPMS[mpm] + server.REFERENCE) as apache:
                with front.Maitred(apache) as maitred, front.load(maitred, clients) as load:
                    load.more(100)
                    # All of them with event, where one process has all channels.
                    for child in [apache.children()[0]] if mpm == "prefork" else apache.children():
                        os.kill(child, signal.SIGKILL)
                    load.more(200)
                    lost = len(load.failures)
                    self.assertLessEqual(lost, clients, load.failures)
                    load.more(200)
                    self.assertEqual(len(load.failures), lost, f"{load.failures} {maitred.log()}")

    def test_while_apache_is_away_requests_wait(self):
        with server.Apache("prefork", MPMS["prefork"] + server.REFERENCE) as apache:
            with front.Maitred(apache) as maitred, maitred.connect() as early, maitred.connect() as late:
                self.assertEqual(front.ask(early, "/bytes/3").body, b"xxx")
                # A child that dies between its response and its DONE leaves in doubt whether the client has all of it.
                apache.wait_for(lambda: all(map(sleeps, apache.children())), "the report")
                apache.stop()
                early.send(request("/bytes/4"))
                late.send(request("/bytes/5", "POST", body=b"x" * 300_000))
                apache.__enter__()
                self.assertEqual(early.response().body, b"xxxx", maitred.log())
                self.assertEqual(late.response().body, b"xxxxx", maitred.log())


if __name__ == "__main__":
    unittest.main()
