"""uvicorn's options, lifespan and logging, with the real uvicorn."""

import importlib.util
import os
import signal
import socket
import unittest

from tests.served import DEADLINE_S, Channel, Process

APP = """
import asyncio, os, sys
started = False
async def app(scope, receive, send):
    global started
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            started = message["type"] == "lifespan.startup"
            scope["state"]["answer"] = 42
            print(message["type"], flush=True)
            await send({"type": message["type"] + ".complete"})
            if not started:
                return
    path = scope["path"].rpartition("/")[2]
    if path == "error":
        raise RuntimeError("asked for")
    if path == "forever":
        await asyncio.Event().wait()
    seen = {
        "loop": type(asyncio.get_running_loop()).__module__.partition(".")[0],
        "state": str(scope["state"].get("answer")),
        "scope": f"{scope['root_path']} {scope['path']} {scope['raw_path'].decode()} {scope['asgi']['version']}",
        "colour": os.environ.get("COLOUR", "-"),
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": seen.get(path, "here").encode()})
    if path == "background":
        await asyncio.sleep(0)
        print("in the background", flush=True)
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        print("background is over", flush=True)

def make():
    return app

def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"wsgi"]

class Old:
    def __init__(self, scope):
        self.scope = scope
    async def __call__(self, receive, send):
        await app({**self.scope, "state": {}}, receive, send)

async def failing(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})

async def without(scope, receive, send):
    assert scope["type"] == "http"
    await app(scope, receive, send)
"""


class Pooled:
    """A worker that was started as Maitred starts it, and its channel."""

    def __init__(self, *arguments, files=(), environment=()):
        ours, theirs = socket.socketpair()
        self._ours = ours
        with theirs:
            words = ("-m", "maitred.uvicorn", *arguments)
            self.process = Process(*words, files={"app.py": APP, **dict(files)}, passed=theirs, environment=environment)

    def __enter__(self):
        self.process.__enter__()
        try:
            self.channel = Channel(self._ours)
        except EOFError as error:
            status = self.process.child.wait(DEADLINE_S)
            log = self.process.log()
            self.__exit__()
            raise AssertionError(f"{status}: {log}") from error
        return self

    def __exit__(self, *_):
        self._ours.close()
        self.process.__exit__()

    def end(self):
        """Ends the channel; the log, and the exit status."""
        self.channel.socket.shutdown(socket.SHUT_WR)
        return self.process.child.wait(DEADLINE_S), self.process.log()

    def body(self, target):
        """The body of the answer to GET."""
        return self.channel.ask(target)[1].partition(b"\r\n\r\n")[2].decode()


@unittest.skipUnless(importlib.util.find_spec("uvicorn"), "uvicorn is not installed")
class Uvicorn(unittest.TestCase):
    def test_lifespan_and_its_state(self):
        with Pooled("app:app") as pooled:
            self.assertEqual((pooled.channel.capacity, pooled.channel.name.split()[0]), (100, "uvicorn"))
            self.assertEqual(pooled.body("/state"), "42")
            status, log = pooled.end()
            self.assertEqual(status, 0)
            self.assertIn("lifespan.startup\n", log)
            self.assertIn("lifespan.shutdown\n", log)
            self.assertIn("Application startup complete.", log)

    def test_lifespan_off_and_auto(self):
        for arguments in (("--lifespan", "off", "app:app"), ("app:without",)):
            with Pooled(*arguments) as pooled:
                self.assertEqual(pooled.body("/state"), "None")
                self.assertNotIn("lifespan.startup\n", pooled.end()[1])

    def test_a_startup_that_fails_ends_it(self):
        for arguments, text in ((("app:failing",), "no database"), (("--lifespan", "on", "app:without"), "AssertionError")):
            with self.assertRaises(AssertionError) as caught:
                with Pooled(*arguments):
                    pass
            self.assertTrue(str(caught.exception).startswith("3: "), caught.exception)
            self.assertIn(text, str(caught.exception))

    def test_a_factory_and_an_app_dir(self):
        with Pooled("--factory", "--app-dir", "{dir}/.", "app:make") as pooled:
            self.assertEqual(pooled.body("/"), "here")

    def test_interfaces(self):
        for name, interface, body in (("app:wsgi", "wsgi", "wsgi"), ("app:Old", "asgi2", "here")):
            with Pooled("--interface", interface, name) as pooled:
                self.assertIn(body, pooled.body("/"))

    def test_root_path(self):
        with Pooled("--root-path", "/api", "app:app") as pooled:
            self.assertEqual(pooled.body("/scope"), "/api /api/scope /api/scope 3.0")
            meta = "remote=[::1]:1\nlocal=192.0.2.1:80\nscheme=https\nmount=/api\nqueue_us=5\n".encode()
            done, seen = pooled.channel.ask("/api/scope", meta=meta)
            self.assertTrue(seen.endswith(b"/api /api/scope /api/scope 3.0"), seen)

    def test_headers(self):
        with Pooled("--header", "X-Own:yes", "app:app") as pooled:
            head = pooled.channel.ask("/")[1].lower()
            self.assertIn(b"\r\nserver: uvicorn\r\n", head)
            self.assertIn(b"\r\nx-own: yes\r\n", head)
        with Pooled("--no-server-header", "app:app") as pooled:
            self.assertNotIn(b"uvicorn", pooled.channel.ask("/")[1])

    def test_environment_of_options_and_files(self):
        files = {"colours.env": "COLOUR=blue\n"}
        with Pooled("--env-file", "colours.env", "app:app", files=files) as pooled:
            self.assertEqual(pooled.body("/colour"), "blue")
        with Pooled("app:app", environment={"UVICORN_LOG_LEVEL": "error"}) as pooled:
            self.assertNotIn("Application startup", pooled.end()[1])

    def test_logs(self):
        with Pooled("--access-log", "--log-level", "info", "app:app") as pooled:
            pooled.channel.ask("/some?q=1", method="POST", body=b"x")
            self.assertEqual(pooled.channel.ask("/error")[0].status, 500)
            log = pooled.end()[1]
            self.assertIn('"POST /some?q=1 HTTP/1.1" 200', log)
            self.assertIn('"GET /error HTTP/1.1" 500', log)
            self.assertIn("Exception in ASGI application", log)
            self.assertIn("RuntimeError: asked for", log)
        with Pooled("app:app") as pooled:
            pooled.channel.ask("/some")
            self.assertNotIn("/some", pooled.end()[1], "Maitred has an access log")

    def test_the_event_loop(self):
        for loop in ("asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])):
            with Pooled("--loop", loop, "app:app") as pooled:
                self.assertEqual(pooled.body("/loop"), loop)
                self.assertEqual(pooled.end()[0], 0)

    def test_limits(self):
        with Pooled("--limit-concurrency", "7", "--limit-max-requests", "2", "app:app") as pooled:
            self.assertEqual(pooled.channel.capacity, 7)
            for _ in range(2):
                self.assertEqual(pooled.channel.ask("/")[0].status, 200)
            self.assertTrue(pooled.channel.at_end())
            self.assertEqual(pooled.process.child.wait(DEADLINE_S), 0)

    def test_background_work_holds_nobody_up_and_is_finished(self):
        with Pooled("app:app") as pooled:
            self.assertEqual(pooled.channel.ask("/background")[0].status, 200)
            self.assertEqual(pooled.body("/"), "here")
            pooled.process.until(lambda: "in the background" in pooled.process.log())
            self.assertNotIn("background is over", pooled.process.log())
            pooled.channel.socket.shutdown(socket.SHUT_WR)
            (pooled.process.path / "go").touch()
            self.assertEqual(pooled.process.child.wait(DEADLINE_S), 0)
            self.assertIn("background is over", pooled.process.log())

    def test_a_graceful_shutdown_has_an_end(self):
        with Pooled("--timeout-graceful-shutdown", "0", "app:app") as pooled:
            client = pooled.channel.send("/forever")
            self.assertEqual(pooled.body("/"), "here")
            pooled.process.child.send_signal(signal.SIGTERM)
            self.assertEqual(pooled.channel.done().status, 0)
            self.assertEqual(pooled.process.child.wait(DEADLINE_S), 0)
            client.close()

    def test_sigint_is_for_maitred(self):
        with Pooled("app:app") as pooled:
            os.kill(pooled.process.child.pid, signal.SIGINT)
            self.assertEqual(pooled.body("/"), "here")

    def test_what_is_maitreds_is_named_and_ignored(self):
        with Pooled("--port", "80", "--workers", "9", "--forwarded-allow-ips", "*", "app:app") as pooled:
            log = pooled.end()[1]
            for text in ("--port is ignored: Maitred listens", "--workers is ignored", "--forwarded-allow-ips is ignored"):
                self.assertIn(text, log)

    def test_what_cannot_start_says_why(self):
        for arguments, status, text in (
            (("--nonsense", "app:app"), 2, "--nonsense"),
            (("nowhere:app",), 3, "nowhere"),
            (("app:nothing",), 3, "nothing"),
        ):
            with self.assertRaises(AssertionError) as caught:
                with Pooled(*arguments):
                    pass
            self.assertTrue(str(caught.exception).startswith(f"{status}: "), caught.exception)
            self.assertIn(text, str(caught.exception))
        with Process("-m", "maitred.uvicorn", "app:app", files={"app.py": APP}) as process:
            self.assertEqual(process.child.wait(DEADLINE_S), 1)
            self.assertIn("MAITRED_CHANNEL is not set", process.log())


if __name__ == "__main__":
    unittest.main()
