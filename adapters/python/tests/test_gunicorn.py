"""gunicorn's worker class, with the real gunicorn: under Maitred's pool, and under gunicorn's arbiter."""

import fcntl
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import unittest

from maitred.frames import PONG
from tests.frames import ping_frame
from tests.served import DEADLINE_S, PACKAGE, Channel, Process, connected

APP = """
import os, threading
from maitred import gunicorn
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/error":
        raise RuntimeError("asked for")
    if path == "/hang":
        while True: pass
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/environ":
        return [environ[environ["QUERY_STRING"]].__str__().encode()]
    if path == "/env":
        return [os.environ.get(environ["QUERY_STRING"], "-").encode()]
    if path == "/errors":
        environ["wsgi.errors"].write("told to wsgi.errors\\n")
    return [b"%d %d" % (os.getpid(), os.getppid())]
"""

MEETING = """
import fcntl, threading
barrier = threading.Barrier(3)
def app(environ, start_response):
    if environ["PATH_INFO"] == "/meet":
        barrier.wait(60)
    if environ["PATH_INFO"] == "/wait":
        print("waiting", flush=True)
        with open("app.py") as file:
            # Until the test releases it.
            fcntl.flock(file, fcntl.LOCK_SH)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(environ["wsgi.multithread"]).encode()]
"""

HOOKS = """
raw_env = ["COLOUR=blue"]
proc_name = "shop"
def note(text):
    with open("hooks", "a") as file:
        file.write(text + "\\n")
def on_starting(server): note("on_starting")
def when_ready(server): note("when_ready")
def pre_fork(server, worker): note("pre_fork")
def post_fork(server, worker): note(f"post_fork {server.cfg.proc_name}")
def post_worker_init(worker): note("post_worker_init")
def pre_request(worker, req): note(f"pre_request {req.method} {req.path} {req.query}")
def post_request(worker, req, environ, resp): note(f"post_request {req.uri} {resp.status} {resp.sent} {environ['REMOTE_ADDR']}")
def worker_exit(server, worker): note("worker_exit")
def on_exit(server): note("on_exit")
"""

CLASS = ("-k", "maitred.gunicorn.HandoffWorker")


class Pooled:
    """A worker that was started as Maitred starts it, and its channel."""

    def __init__(self, *arguments, module="maitred.gunicorn", files=()):
        ours, theirs = socket.socketpair()
        self._ours = ours
        with theirs:
            self.process = Process("-m", module, *arguments, files={"app.py": APP, **dict(files)}, passed=theirs)

    def __enter__(self):
        self.process.__enter__()
        try:
            self.channel = Channel(self._ours)
        except EOFError as error:
            self.process.child.wait(DEADLINE_S)
            log = self.process.log()
            self.__exit__()
            raise AssertionError(log) from error
        return self

    def __exit__(self, *_):
        self._ours.close()
        self.process.__exit__()

    def ended(self):
        """The exit status, once the channel has ended; the hooks that were called are in `hooks`."""
        status = self.process.child.wait(DEADLINE_S)
        path = self.process.path / "hooks"
        self.hooks = path.read_text().splitlines() if path.exists() else []
        return status


@unittest.skipUnless(importlib.util.find_spec("gunicorn"), "gunicorn is not installed")
class UnderMaitred(unittest.TestCase):
    def test_it_answers_without_an_arbiter(self):
        with Pooled("app:app") as pooled:
            self.assertEqual((pooled.channel.capacity, pooled.channel.name.split()[0]), (1, "gunicorn"))
            done, seen = pooled.channel.ask("/")
            self.assertEqual(done.status, 200)
            self.assertTrue(seen.endswith(b"%d %d" % (pooled.process.child.pid, os.getpid())), seen)

    def test_gunicorn_itself_steps_aside(self):
        with Pooled(*CLASS, "app:app", module="gunicorn") as pooled:
            _, seen = pooled.channel.ask("/")
            self.assertTrue(seen.endswith(b"%d %d" % (pooled.process.child.pid, os.getpid())), seen)

    def test_an_orderly_end(self):
        with Pooled("app:app") as pooled:
            pooled.channel.ask("/")
            pooled.channel.socket.shutdown(socket.SHUT_WR)
            self.assertTrue(pooled.channel.at_end())
            self.assertEqual(pooled.ended(), 0)

    def test_sigterm_is_an_orderly_end_and_sigint_is_nothing(self):
        with Pooled("app:app") as pooled:
            pooled.process.child.send_signal(signal.SIGINT)
            self.assertEqual(pooled.channel.ask("/")[0].status, 200)
            pooled.process.child.send_signal(signal.SIGTERM)
            self.assertTrue(pooled.channel.at_end())
            self.assertEqual(pooled.ended(), 0)

    def test_hooks_and_settings_of_a_configuration_file(self):
        with Pooled("-c", "conf.py", "app:app", files={"conf.py": HOOKS}) as pooled:
            self.assertTrue(pooled.channel.ask("/env?COLOUR")[1].endswith(b"blue"))
            pooled.channel.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(pooled.ended(), 0)
            self.assertEqual(
                pooled.hooks,
                [
                    "on_starting",
                    "when_ready",
                    "pre_fork",
                    "post_fork shop",
                    "post_worker_init",
                    "pre_request GET /env COLOUR",
                    "post_request /env?COLOUR 200 OK 4 2001:db8::1",
                    "worker_exit",
                    "on_exit",
                ],
            )

    def test_logs(self):
        with Pooled("--access-logfile", "-", "--access-logformat", "%(m)s %(U)s %(s)s %(B)s", "app:app") as pooled:
            pooled.channel.ask("/errors", method="POST", body=b"x")
            self.assertEqual(pooled.channel.ask("/error")[0].status, 500)
            pooled.channel.socket.shutdown(socket.SHUT_WR)
            pooled.ended()
            log = pooled.process.log()
            self.assertIn("told to wsgi.errors", log)
            self.assertIn("POST /errors 200 ", log)
            self.assertIn("GET /error 500 ", log)
            self.assertIn("RuntimeError: asked for", log)

    def test_max_requests_is_an_orderly_end(self):
        with Pooled("--max-requests", "2", "app:app") as pooled:
            for _ in range(2):
                self.assertEqual(pooled.channel.ask("/")[0].status, 200)
            self.assertTrue(pooled.channel.at_end())
            self.assertEqual(pooled.ended(), 0)

    def test_threads_share_the_channel(self):
        with Pooled("--threads", "3", "--max-requests", "5", "app:app", files={"app.py": MEETING}) as pooled:
            self.assertEqual(pooled.channel.capacity, 3)
            # Each waits for the two others.
            clients = [pooled.channel.send("/meet") for _ in range(3)]
            pooled.channel.socket.sendall(ping_frame(7))
            kinds = [pooled.channel.frame()[0] for _ in range(4)]
            self.assertEqual(kinds.count(PONG), 1)
            for client in clients:
                with client:
                    self.assertTrue(client.recv(1000).endswith(b"True"))
            for _ in range(2):
                self.assertEqual(pooled.channel.ask("/")[0].status, 200)
            self.assertTrue(pooled.channel.at_end())
            self.assertEqual(pooled.ended(), 0)

    def test_ping_is_answered_while_all_threads_are_busy(self):
        with Pooled("--threads", "2", "app:app", files={"app.py": MEETING}) as pooled:
            with open(pooled.process.path / "app.py") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                clients = [pooled.channel.send("/wait") for _ in range(2)]
                pooled.process.until(lambda: pooled.process.log().count("waiting") == 2)
                pooled.channel.socket.sendall(ping_frame(7))
                self.assertEqual(pooled.channel.frame()[0], PONG)
            self.assertEqual([pooled.channel.done().status for _ in clients], [200, 200])
            for client in clients:
                client.close()

    def test_preload_loads_before_the_hooks(self):
        files = {"early.py": "from app import app\nopen('hooks', 'a').write('loaded\\n')\n", "conf.py": HOOKS}
        with Pooled("--preload", "-c", "conf.py", "early:app", files=files) as pooled:
            pooled.channel.socket.shutdown(socket.SHUT_WR)
            pooled.ended()
            self.assertEqual(pooled.hooks[:2], ["loaded", "on_starting"])

    def test_what_cannot_start_says_why(self):
        asgi = "async def app(scope, receive, send): pass\n"
        for source, arguments, text in (
            (APP, ("nowhere:app",), "nowhere"),
            (APP, ("app:nothing",), "nothing"),
            (asgi, ("app:app",), "maitred.uvicorn"),
        ):
            with self.assertRaises(AssertionError) as caught:
                with Pooled(*arguments, files={"app.py": source}):
                    pass
            self.assertIn(text, str(caught.exception))

    def test_without_maitred_it_says_so(self):
        with Process("-m", "maitred.gunicorn", "app:app", files={"app.py": APP}) as process:
            self.assertEqual(process.child.wait(DEADLINE_S), 1)
            self.assertIn("MAITRED_CHANNEL is not set", process.log())


@unittest.skipUnless(importlib.util.find_spec("gunicorn"), "gunicorn is not installed")
class UnderTheArbiter(unittest.TestCase):
    def gunicorn(self, *arguments, files=()):
        words = ("-m", "gunicorn", *CLASS, "-b", "unix:{dir}/app.sock", *arguments, "app:app")
        return Process(*words, files={"app.py": APP, **dict(files)})

    def channel(self, process):
        channel = connected(process, process.path / "app.sock")
        self.addCleanup(channel.close)
        return channel

    def test_each_worker_takes_one_channel(self):
        with self.gunicorn("--workers", "2") as process:
            channels = [self.channel(process) for _ in range(2)]
            pids = {channel.ask("/")[1].rpartition(b"\r\n")[2] for channel in channels}
            self.assertEqual(len(pids), 2)
            self.assertEqual({pid.split()[1] for pid in pids}, {b"%d" % process.child.pid})

    def test_a_channel_that_ends_makes_room_for_the_next(self):
        with self.gunicorn() as process:
            for _ in range(3):
                channel = self.channel(process)
                self.assertEqual(channel.ask("/")[0].status, 200)
                channel.close()

    def test_each_thread_takes_one_channel(self):
        with self.gunicorn("--threads", "3") as process:
            channels = [self.channel(process) for _ in range(3)]
            found = {channel.ask("/")[1].rpartition(b"\r\n")[2] for channel in channels}
            self.assertEqual(len(found), 1)
            self.assertTrue(channels[0].ask("/environ?wsgi.multithread")[1].endswith(b"True"))

    def test_a_reload_ends_channels_in_an_orderly_way_and_takes_new_ones(self):
        with self.gunicorn() as process:
            channel = self.channel(process)
            before = channel.ask("/")[1]
            process.child.send_signal(signal.SIGHUP)
            self.assertTrue(channel.at_end())
            again = self.channel(process)
            self.assertNotEqual(again.ask("/")[1].rpartition(b"\r\n")[2], before.rpartition(b"\r\n")[2])

    def test_max_requests_replaces_the_worker(self):
        for threads in ("1", "2"):
            with self.gunicorn("--max-requests", "1", "--threads", threads) as process:
                for _ in range(2):
                    channel = self.channel(process)
                    self.assertEqual(channel.ask("/")[0].status, 200)
                    self.assertTrue(channel.at_end())

    def test_a_worker_that_hangs_is_ended_by_the_arbiter(self):
        with self.gunicorn("--timeout", "1", "--graceful-timeout", "1") as process:
            channel = self.channel(process)
            channel.ask("/")
            hanging = channel.send("/hang")
            self.assertEqual(channel.done().status, 500)
            self.assertTrue(channel.at_end())
            self.assertTrue(hanging.recv(100).startswith(b"HTTP/1.1 500 "))
            self.assertIn("WORKER TIMEOUT", process.log())
            hanging.close()

    def test_stopping_the_arbiter_ends_the_channels(self):
        # With a timeout that is longer than the test may take: nothing of this waits for the next heartbeat.
        for threads in ("1", "2"):
            with self.gunicorn("--threads", threads, "--timeout", "1000") as process:
                channel = self.channel(process)
                process.child.send_signal(signal.SIGTERM)
                self.assertTrue(channel.at_end())
                self.assertEqual(process.child.wait(DEADLINE_S), 0)

    def test_conformance(self):
        kit = PACKAGE.parent / "conformance" / "run.py"
        words = ("-m", "gunicorn", *CLASS, "-b", "unix:{dir}/app.sock", "--error-logfile", "error.log")
        with Process(*words, "tests.reference:application", files={}) as process:
            process.until((process.path / "app.sock").exists)
            options = ["--connect", str(process.path / "app.sock"), "--log", str(process.path / "error.log")]
            done = subprocess.run([sys.executable, str(kit), *options], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(" 0 failed", done.stdout)

    def test_an_address_that_speaks_http_is_refused(self):
        with Process("-m", "gunicorn", *CLASS, "-b", "127.0.0.1:0", "app:app", files={"app.py": APP}) as process:
            self.assertEqual(process.child.wait(DEADLINE_S), 1)
            self.assertIn("bind = 'unix:/path'", process.log())


if __name__ == "__main__":
    unittest.main()
