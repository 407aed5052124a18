"""The command line: what a person sees who configured something wrong."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from maitred import server

PACKAGE = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR") or PACKAGE.parent.parent / "target", "debug", "maitred")


def run(*arguments, files=None, channel=None):
    """Runs the adapter in a directory with `files`; returns (exit status, standard error).

    `channel` is the socket to pass as the channel, or any text to put into the variable.
    """
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    environment.pop("MAITRED_CHANNEL", None)
    passed = []
    if isinstance(channel, socket.socket):
        passed, channel = [channel.fileno()], str(channel.fileno())
    if channel is not None:
        environment["MAITRED_CHANNEL"] = channel
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (files or {}).items():
            Path(directory, name).write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "maitred", *arguments],
            cwd=directory,
            env=environment,
            pass_fds=passed,
            capture_output=True,
            text=True,
            timeout=60,
        )
    return done.returncode, done.stderr


def run_with_channel(*arguments, files=None):
    """The same with a channel whose other end is closed already."""
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        return run(*arguments, files=files, channel=theirs)


class Usage(unittest.TestCase):
    def test_help_names_the_arguments(self):
        text = subprocess.run(
            [sys.executable, "-m", "maitred", "--help"], cwd=PACKAGE, capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("module:callable", text)
        self.assertIn("--capacity", text)
        self.assertIn("--interface", text)

    def test_wrong_usage_is_2(self):
        for arguments in ([], ["a:b", "c"], ["a:b", "--capacity", "0"], ["a:b", "--capacity", "x"]):
            self.assertEqual(run(*arguments)[0], 2, arguments)

    def test_without_maitred_it_says_so(self):
        status, text = run("app:application")
        self.assertEqual(status, 1)
        self.assertIn("started by Maitred", text)

    def test_a_variable_without_a_socket_is_named(self):
        for value in ("77", "x", ""):
            status, text = run("app:application", channel=value)
            self.assertEqual(status, 1)
            self.assertIn(f"MAITRED_CHANNEL={value} ", text)


class Server(unittest.TestCase):
    """Stands in for the server's executable: a script that says how it was called."""

    def run(self, result=None):
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory, "maitred")
            program.write_text('#!/bin/sh\necho "the server: $*" >&2\nexit 7\n')
            program.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, {"PATH": f"{directory}:{os.environ['PATH']}"}):
                super().run(result)

    def test_its_commands_become_the_server(self):
        for arguments in (["run", "-c", "x y"], ["check"], ["--version"], ["-V"]):
            if any(os.access(place, os.X_OK) for place in server.places()):
                self.skipTest("here: a server is installed in this environment")
            self.assertEqual(run(*arguments), (7, f"the server: {' '.join(arguments)}\n"))

    def test_the_server_is_given_this_interpreter_and_its_environment(self):
        if any(os.access(place, os.X_OK) for place in server.places()):
            self.skipTest("here: a server is installed in this environment")
        says = 'echo "$MAITRED_PYTHON" "$VIRTUAL_ENV" "$PATH"'
        with tempfile.TemporaryDirectory() as directory:
            other = Path(directory, "venv")
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
            program = Path(directory, "maitred")
            program.write_text(f"#!/bin/sh\n{says}\n")
            program.chmod(0o755)
            variables = {**os.environ, "PYTHONPATH": str(PACKAGE), "PATH": f"{directory}:/usr/bin:/bin"}
            variables.pop("VIRTUAL_ENV", None)
            # As a unit, a container and cron start it: nothing has activated the environment.
            command = [other / "bin/python3", "-m", "maitred", "app", "app:application"]
            said = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual(said[:2], [str(other / "bin/python3"), str(other)])
            self.assertEqual(said[2], f"{other}/bin:{directory}:/usr/bin:/bin")

    def test_a_process_of_a_pool_is_a_worker(self):
        status, text = run_with_channel("run", files={"run.py": "x = 1\n"})
        self.assertEqual((status, "module 'run' has no 'application'" in text), (1, True), text)

    def test_other_words_are_applications(self):
        for word in ("run:application", "cheque"):
            status, text = run(word)
            self.assertEqual((status, "started by Maitred" in text), (1, True), text)

    def test_without_an_executable_it_says_where_it_has_looked(self):
        with unittest.mock.patch.object(server.shutil, "which", return_value=None):
            with unittest.mock.patch.object(server, "places", return_value=["/nowhere/maitred"]):
                with self.assertRaisesRegex(server.NoServer, "/nowhere/maitred.*cargo xtask dist"):
                    server.find()


@unittest.skipUnless(BUILT.exists(), "there is no debug build of maitred (cargo build -p maitred)")
class Commands(unittest.TestCase):
    def test_they_are_those_of_the_server(self):
        text = subprocess.run([BUILT, "--help"], capture_output=True, text=True, check=True).stdout
        listed = re.findall(r"^  (\w+) ", text.split("Commands:\n")[1].split("\n\n")[0], re.MULTILINE)
        self.assertEqual(sorted([*listed, "help"]), sorted(server.COMMANDS))


class Loading(unittest.TestCase):
    def test_a_module_that_is_not_there_is_named(self):
        status, text = run_with_channel("nowhere:application")
        self.assertEqual(status, 1)
        self.assertIn("no module 'nowhere'", text)
        self.assertIn("Looked in: ", text)

    def test_a_module_that_misses_another_shows_where(self):
        status, text = run_with_channel("app", files={"app.py": "import nowhere\n"})
        self.assertEqual(status, 1)
        self.assertIn("app.py", text)
        self.assertIn("importing 'app' failed", text)

    def test_a_module_with_an_error_shows_where(self):
        status, text = run_with_channel("app", files={"app.py": "x = (\n"})
        self.assertEqual(status, 1)
        self.assertIn("SyntaxError", text)

    def test_a_callable_that_is_not_there_is_named(self):
        status, text = run_with_channel("app:nope", files={"app.py": "def create(): pass\n"})
        self.assertEqual(status, 1)
        self.assertIn("no 'nope'", text)
        self.assertIn("create", text)

    def test_what_is_not_callable_is_refused(self):
        status, text = run_with_channel("app", files={"app.py": "application = 5\n"})
        self.assertEqual((status, "not callable" in text), (1, True))

    def test_a_factory_is_called(self):
        source = (
            "import sys\n"
            "def create_app(name='none', *, debug=False):\n"
            "    print('made', name, debug, file=sys.stderr)\n"
            "    return lambda environ, start_response: None\n"
        )
        for call, made in (("create_app()", "made none False\n"), ("create_app('x', debug=True)", "made x True\n")):
            self.assertEqual(run_with_channel(f"app:{call}", files={"app.py": source}), (0, made))

    def test_a_factory_that_is_not_called_or_fails_is_named(self):
        for name, source, part in (
            ("app:create_app", "def create_app(config=None): pass\n", "write 'app:create_app()'"),
            ("app:create_app()", "def create_app(): raise ValueError('no key')\n", "calling 'create_app()' of 'app' failed"),
            ("app:create_app(x)", "def create_app(x): pass\n", "have to be literals"),
            ("app:create_app(", "x = 1\n", "cannot be read as a call"),
            ("app:create_app()", "def create_app(): return 5\n", "not callable but of type int"),
        ):
            status, text = run_with_channel(name, files={"app.py": source})
            self.assertEqual((status, part in text), (1, True), text)

    def test_without_a_callable_it_is_application_or_app(self):
        for name in ("application", "app"):
            source = f"def {name}(environ, start_response): pass\n"
            self.assertEqual(run_with_channel("site_of_mine", files={"site_of_mine.py": source}), (0, ""))

    def test_a_traceback_is_shortened_to_the_application(self):
        files = {"app.py": "import other\n", "other.py": "import json\njson.loads('{')\n"}
        whole = run_with_channel("app", files=files)[1]
        with unittest.mock.patch.dict(os.environ, {"MAITRED_TRACEBACK": "short"}):
            short = run_with_channel("app", files=files)[1]
        for text, expected in ((whole, True), (short, False)):
            self.assertIn("other.py", text)
            self.assertIn("JSONDecodeError", text)
            self.assertEqual("importlib" in text or "decoder.py" in text, expected, text)

    def test_a_startup_that_fails_is_an_exit(self):
        source = (
            "async def application(scope, receive, send):\n"
            "    await receive()\n"
            "    await send({'type': 'lifespan.startup.failed', 'message': 'no database'})\n"
        )
        status, text = run_with_channel("app", files={"app.py": source})
        self.assertEqual((status, text), (1, "maitred: startup of the application failed: no database\n"))

    def test_the_interface_is_what_the_application_is(self):
        for source, interface, flags in (
            ("async def application(scope, receive, send): pass\n", "asgi", ()),
            ("class A:\n    async def __call__(self, scope, receive, send): pass\napplication = A()\n", "asgi", ()),
            ("import functools\nasync def a(x, y, z): pass\napplication = functools.partial(a)\n", "asgi", ()),
            ("class A:\n    async def __rsgi__(self, scope, protocol): pass\napplication = A()\n", "rsgi", ()),
            ("async def application(scope, protocol): pass\n", "rsgi", ()),
            ("async def application(scope, protocol, more=0): pass\n", "asgi", ()),
            ("async def application(*arguments): pass\n", "asgi", ()),
            ("async def application(*arguments): pass\n", "rsgi", ("--interface", "rsgi")),
            ("def application(environ, start_response): pass\n", "wsgi", ()),
            ("class A:\n    def __call__(self, e, s): pass\napplication = A()\n", "wsgi", ()),
            ("def application(scope, receive, send):\n    async def run(): pass\n    return run()\n", "asgi", ("--interface", "asgi")),
        ):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.shutdown(socket.SHUT_WR)
                self.assertEqual(run("app", *flags, files={"app.py": source}, channel=theirs), (0, ""))
                hello = ours.recv(4096)
            self.assertTrue(hello[24 : 16 + hello[0]].endswith(interface.encode()), hello)
            self.assertEqual(int.from_bytes(hello[20:24], "little"), {"wsgi": 1, "asgi": 100, "rsgi": 100}[interface])

    def test_threads_are_for_wsgi_and_are_the_capacity(self):
        wsgi = "def application(environ, start_response): pass\n"
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.shutdown(socket.SHUT_WR)
            self.assertEqual(run("app", "--threads", "7", files={"app.py": wsgi}, channel=theirs), (0, ""))
            self.assertEqual(int.from_bytes(ours.recv(4096)[20:24], "little"), 7)
        asgi = "async def application(scope, receive, send): pass\n"
        for source, more in ((asgi, ()), (wsgi, ("--capacity", "3"))):
            status, text = run_with_channel("app", "--threads", "7", *more, files={"app.py": source})
            self.assertEqual((status, "--threads is for WSGI" in text), (1, True), text)

    def test_the_event_loop_is_uvloop_where_it_is_installed(self):
        asgi = "async def application(scope, receive, send): pass\n"
        # It stands before what may be installed.
        stub = "import asyncio, sys\ndef new_event_loop():\n    sys.stderr.write('made')\n    return asyncio.new_event_loop()\n"
        for arguments, made in (((), "made"), (("--loop", "uvloop"), "made"), (("--loop", "asyncio"), "")):
            found = run_with_channel("app", *arguments, files={"app.py": asgi, "uvloop.py": stub})
            self.assertEqual(found, (0, made), arguments)
        missing = {"app.py": asgi, "uvloop.py": "raise ImportError('not here')\n"}
        self.assertEqual(run_with_channel("app", files=missing), (0, ""))
        self.assertEqual(run_with_channel("app", "--loop", "uvloop", files=missing), (1, "maitred: --loop uvloop: not here\n"))
        wsgi = "def application(environ, start_response): pass\n"
        status, text = run_with_channel("app", "--loop", "asyncio", files={"app.py": wsgi})
        self.assertEqual((status, "--loop is for ASGI" in text), (1, True), text)

    def test_a_server_that_is_gone_is_an_orderly_end(self):
        source = "class A:\n    def call(self, environ, start_response): pass\nthing = A()\n"
        self.assertEqual(run_with_channel("app:thing.call", files={"app.py": source}), (0, ""))


if __name__ == "__main__":
    unittest.main()
