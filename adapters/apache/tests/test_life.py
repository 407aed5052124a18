"""Start, restart and end: of Apache, of its processes, of channels."""

import os
import signal
import socket
import stat
import threading
import unittest
from pathlib import Path

import server
from conformance import MPMS
from server import kit

ONE_PROCESS = "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 2\n"


def setUpModule():
    why = server.missing()
    if why is not None:
        raise unittest.SkipTest(why)


def connect(apache):
    """A channel that has been welcomed."""
    channel = kit.Connected(apache.path, str(apache.log))
    channel.welcome()
    return channel


def is_refused(path):
    """Whether nothing listens there."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) != 0


class Configuration(unittest.TestCase):
    def test_a_good_one_is_accepted_without_a_word_more(self):
        for mpm, limits in MPMS.items():
            apache = server.Apache(mpm, limits + server.REFERENCE)
            self.addCleanup(apache.discard)
            self.assertEqual(apache.test_configuration(), (0, "Syntax OK\n"))
            self.assertFalse(Path(apache.path).exists(), "a test of the configuration has made a socket")

    def test_what_is_wrong_is_said(self):
        for line, wanted in (
            ("MaitredListen 127.0.0.1:80", "unix:/path"),
            ("MaitredListen unix:", "unix:/path"),
            ("MaitredListen unix:/x mode=999", "mode=0660"),
            ("MaitredListen unix:/x mode=", "mode=0660"),
            ("MaitredListen unix:/x owner=me", "mode=0660"),
            ("MaitredListen unix:/" + "x" * 100, "longer than"),
            ("MaitredListen unix:" + "x" * 90, "longer than"),
            ("<VirtualHost *:80>\nMaitredListen unix:/x\n</VirtualHost>", "cannot occur"),
        ):
            apache = server.Apache("prefork", line)
            self.addCleanup(apache.discard)
            status, text = apache.test_configuration()
            self.assertEqual((status, wanted in text), (1, True), text)

    def test_a_socket_that_cannot_be_made_ends_the_start(self):
        apache = server.Apache("prefork", ONE_PROCESS + "MaitredListen unix:{root}/nowhere/socket")
        self.addCleanup(apache.discard)
        status, text = apache.run()
        self.assertEqual((status, "cannot listen on unix:" in text), (1, True), text)

    def test_buckets_of_listeners_are_refused(self):
        if (os.cpu_count() or 1) < 2:
            self.skipTest("here: one processor makes one bucket")
        apache = server.Apache("prefork", ONE_PROCESS + "ListenCoresBucketsRatio 1\n")
        self.addCleanup(apache.discard)
        status, text = apache.run()
        self.assertEqual((status, "ListenCoresBucketsRatio" in text), (1, True), text)

    def test_the_socket_has_its_mode_and_goes_with_apache(self):
        with server.Apache("prefork", ONE_PROCESS + "MaitredListen unix:{root}/default.sock\n") as apache:
            modes = [stat.S_IMODE(os.stat(apache.root / name).st_mode) for name in ("maitred.sock", "default.sock")]
            self.assertEqual(modes, [0o666, 0o660])
            names = sorted(path.name for path in apache.root.glob("*.sock*"))
            self.assertEqual(names, ["default.sock", "maitred.sock"])
            apache.stop()
            self.assertEqual(list(apache.root.glob("*.sock*")), [])


class Restart(unittest.TestCase):
    def test_a_graceful_restart_finishes_what_runs_and_keeps_the_path(self):
        for mpm, limits in MPMS.items():
            with self.subTest(mpm), server.Apache(mpm, limits + server.REFERENCE) as apache:
                busy, idle = connect(apache), connect(apache)
                client = busy.client()
                data = b"".join(kit.request_frame(7, n, "/slow/300", descriptors=int(n == 0)) for n in range(2))
                busy.send(data, [client.far.fileno()])
                missing = _Watch(apache.path)
                apache.reload()
                self.assertTrue(idle.at_end(), "an idle channel stays")
                self.assertEqual([busy.done().flags for _ in range(2)], [kit.CLEAN, kit.CLEAN])
                self.assertEqual((client.answer().body, client.answer().body), (b"slow", b"slow"))
                self.assertTrue(busy.at_end(), "a busy channel stays when it has answered")
                with connect(apache) as after:
                    self.assertEqual(after.ask("/bytes/3")[0].body, b"xxx")
                self.assertEqual(missing.count(), 0)
                self.assertEqual(idle.errors(), "")
                busy.__exit__(), idle.__exit__()

    def test_every_request_that_was_accepted_is_answered_in_a_restart(self):
        """Maitred can tell by `EPIPE` what was not received; all else has to be reported before the channel ends."""
        for mpm, limits in MPMS.items():
            with self.subTest(mpm), server.Apache(mpm, limits + server.REFERENCE) as apache, connect(apache) as channel:
                client, sent, done = channel.client(), 0, 0
                channel._reading.append(client)
                try:
                    while sent < 100_000:
                        data = kit.request_frame(7, sent, "/bytes/10", descriptors=int(sent == 0))
                        channel.send(data, [client.far.fileno()] if sent == 0 else [])
                        sent += 1
                        if sent == 200:
                            apache.reload()
                        while sent - done > 40:
                            self.assertEqual(channel.done().flags, kit.CLEAN)
                            done += 1
                except BrokenPipeError:
                    pass
                while done < sent:
                    self.assertEqual(channel.done().request, done)
                    done += 1
                self.assertTrue(200 <= sent < 100_000, sent)
                self.assertTrue(channel.at_end())

    def test_a_graceful_restart_reads_the_configuration_again(self):
        with server.Apache("prefork", ONE_PROCESS + server.REFERENCE) as apache:
            text = apache.configuration.read_text()
            apache.configuration.write_text(text + "\nHeader always set X-Generation two\n")
            with connect(apache) as before:
                self.assertEqual(before.ask("/bytes/3")[0].all("x-generation"), [])
                apache.reload()
                self.assertTrue(before.at_end())
            with connect(apache) as after:
                self.assertEqual(after.ask("/bytes/3")[0].one("x-generation"), "two")

    def test_a_restart_that_drops_the_directive_closes_the_socket(self):
        with server.Apache("prefork", ONE_PROCESS + "MaitredListen unix:{root}/second.sock\n") as apache:
            text = apache.configuration.read_text().replace(f"MaitredListen unix:{apache.root}/second.sock", "")
            apache.configuration.write_text(text)
            second = str(apache.root / "second.sock")
            with kit.Connected(second, str(apache.log)) as channel:
                channel.welcome()
                apache.reload()
                self.assertTrue(channel.at_end())
            connect(apache).__exit__()
            self.assertTrue(is_refused(second))

    def test_waking_its_own_workers_is_no_violation(self):
        """Without `Listen`, Apache's connection to itself arrives at the module's socket."""
        limits = "StartServers 4\nMinSpareServers 1\nMaxSpareServers 4\nMaxRequestWorkers 4\n"
        with server.Apache("prefork", limits) as apache:
            apache.wait_for(lambda: len(apache.children()) == 4, "four processes")
            before = apache.children()
            apache.reload()
            apache.wait_for(lambda: not set(before) & set(apache.children()), "new processes")
            with connect(apache) as channel:
                self.assertEqual(channel.errors(), "")
            self.assertNotIn("channel", apache.log.read_text())


class Processes(unittest.TestCase):
    def test_a_process_leaves_after_as_many_requests_as_it_should(self):
        with server.Apache("prefork", ONE_PROCESS + "MaxConnectionsPerChild 5\n" + server.REFERENCE) as apache:
            [first] = apache.children()
            with connect(apache) as channel:
                for _ in range(5):
                    channel.ask("/bytes/3")
                self.assertTrue(channel.at_end())
            apache.wait_for(lambda: first not in apache.children(), "the process to leave")
            with connect(apache) as channel:
                self.assertEqual(channel.ask("/bytes/3")[0].body, b"xxx")

    def test_threads_leave_their_channel_after_as_many(self):
        limits = MPMS["event"] + "MaxConnectionsPerChild 5\n"
        with server.Apache("event", limits + server.REFERENCE) as apache, connect(apache) as channel:
            for _ in range(5):
                channel.ask("/bytes/3")
            self.assertTrue(channel.at_end())

    def test_what_was_sent_ahead_is_answered_before_a_process_leaves(self):
        with server.Apache("prefork", ONE_PROCESS + "MaxConnectionsPerChild 5\n" + server.REFERENCE) as apache:
            with connect(apache) as channel:
                client = channel.client()
                data = b"".join(kit.request_frame(7, n, "/bytes/1", descriptors=int(n == 0)) for n in range(20))
                channel.send(data, [client.far.fileno()])
                self.assertEqual([channel.done().request for _ in range(20)], list(range(20)))
                self.assertTrue(channel.at_end())

    def test_a_process_that_is_killed_takes_its_channel_along_and_is_replaced(self):
        with server.Apache("prefork", ONE_PROCESS + server.REFERENCE) as apache:
            [first] = apache.children()
            with connect(apache) as channel:
                channel.ask("/bytes/3")
                os.kill(first, signal.SIGKILL)
                self.assertTrue(channel.at_end())
            with connect(apache) as channel:
                self.assertEqual(channel.ask("/bytes/3")[0].body, b"xxx")

    def test_stop_ends_idle_channels(self):
        for mpm, limits in MPMS.items():
            with self.subTest(mpm), server.Apache(mpm, limits) as apache, connect(apache) as channel:
                channel.send(kit.frame(kit.PING))
                channel.read_frame()
                apache.stop()
                self.assertTrue(channel.at_end())


class _Watch:
    """Looks for a path as fast as it can, until `count` is asked for."""

    def __init__(self, path):
        self._path, self._missing, self._ends = path, 0, False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ends:
            self._missing += not os.path.exists(self._path)

    def count(self):
        self._ends = True
        self._thread.join()
        return self._missing


if __name__ == "__main__":
    unittest.main()
