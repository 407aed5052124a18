"""The packages of Python and Node.js, installed into empty directories and used as their users do.

    MAITRED_WHEEL=FILE MAITRED_NPM=PLATFORM.tgz:ADAPTER.tgz installed.py

`cargo xtask installed` makes the packages and runs this. Nothing comes from the network.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "adapters" / "differential"))

import servers  # noqa: E402

DEADLINE_S = 120
CONFIGURATION = """
[server]
share_user = true
[[listen]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
[pool.app]
workers = 1
command = {command}
"""
WSGI = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"from Python " + environ["PATH_INFO"].encode()]
"""
NODE = "require('maitred').listen((request, response) => response.end('from Node.js ' + request.url));\n"


def environment():
    """This one without what would lead to a Maitred, or a package, that is not the installed one."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NODE_PATH", "MAITRED_CHANNEL")}


def run(*words, cwd, status=0):
    """What a command has written, when it has ended with this status."""
    words = [str(word) for word in words]
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def get(words, directory, target, variables=None):
    """What the application behind `words` answers; the server is ended with SIGTERM, and has to end well."""
    server = servers.Process([str(word) for word in words], directory, variables or {}, directory / "log")
    try:
        host, port = server.until("listening", lambda: servers.listening(server))
        with urllib.request.urlopen(f"http://{host}:{port}{target}", timeout=DEADLINE_S) as response:
            said = response.read().decode()
    finally:
        status = server.stop()
    assert status == 0, f"status {status}\n{server.output()}"
    return said


def site(directory, command, name, source):
    """A directory with an application and its configuration."""
    (directory / name).write_text(source)
    (directory / "maitred.toml").write_text(CONFIGURATION.format(command=json.dumps([str(word) for word in command])))


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if "__pycache__" not in path.parts)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.directory = Path(cls.holder.name)
        cls.wheel = os.environ["MAITRED_WHEEL"]
        cls.venv = cls.directory / "venv"
        run(sys.executable, "-m", "venv", cls.venv, cwd=cls.directory)
        cls.python = cls.venv / "bin" / "python3"
        cls.before = tree(cls.venv)
        cls.pip("install", "--no-index", "--no-compile", cls.wheel)

    @classmethod
    def pip(cls, *words):
        return run(cls.python, "-m", "pip", "--disable-pip-version-check", *words, cwd=cls.directory)

    def test_1_the_archive_is_sound_and_has_fixed_times(self):
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual({info.date_time for info in archive.infolist()}, {(1980, 1, 1, 0, 0, 0)})

    def test_2_the_command_and_the_module_are_the_same_server(self):
        version = run(self.venv / "bin" / "maitred", "--version", cwd=self.directory)
        self.assertRegex(version, r"^maitred \d")
        self.assertEqual(run(self.python, "-m", "maitred", "--version", cwd=self.directory), version)
        self.assertIn("module:callable", run(self.python, "-m", "maitred", "--help", cwd=self.directory))
        self.assertIn("module:callable", run(self.venv / "bin" / "maitred-worker", "--help", cwd=self.directory))
        self.assertIn("maitred.toml", run(self.python, "-m", "maitred", "check", cwd=self.directory, status=2))

    def test_3_it_serves_an_application_of_the_same_environment(self):
        site(self.directory, [self.python, "-m", "maitred", "app:application"], "app.py", WSGI)
        run(self.venv / "bin" / "maitred", "check", cwd=self.directory)
        said = get([self.python, "-m", "maitred", "run"], self.directory, "/x")
        self.assertEqual(said, "from Python /x")

    def test_4_a_worker_is_a_worker_whatever_its_application_is_called(self):
        site(self.directory, [self.python, "-m", "maitred", "check"], "check.py", WSGI)
        self.assertEqual(get([self.venv / "bin" / "maitred", "run"], self.directory, "/y"), "from Python /y")

    def test_5_the_interpreter_of_the_launcher_runs_the_application(self):
        # As a unit, a container and cron start it: nothing has activated the environment, and `python3` is another one.
        (self.directory / "whose.py").write_text(WSGI.replace('b"from Python "', "sys.executable.encode()").replace("def", "import sys\n\n\ndef", 1))
        for words in ([self.python, "-m", "maitred"], [self.venv / "bin" / "maitred"]):
            words = [*words, "app", "whose:application", "--listen", "127.0.0.1:0"]
            self.assertEqual(get(words, self.directory, "/x", {"PATH": "/usr/bin:/bin"}), f"{self.python}/x")

    def test_6_nothing_is_left(self):
        self.pip("uninstall", "--yes", "maitred")
        self.assertEqual(tree(self.venv), self.before)


class Npm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.directory = Path(cls.holder.name)
        (cls.directory / "package.json").write_text('{"private": true}\n')
        packages = os.environ["MAITRED_NPM"].split(os.pathsep)
        words = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund"]
        run("npm", "install", *words, *packages, cwd=cls.directory)

    def test_1_npx_finds_the_server(self):
        self.assertRegex(run("npx", "--no", "--", "maitred", "--version", cwd=self.directory), r"^maitred \d")
        self.assertIn("maitred.toml", run("npx", "--no", "--", "maitred", "check", cwd=self.directory, status=2))

    def test_2_it_serves_an_application(self):
        site(self.directory, ["node", "server.js"], "server.js", NODE)
        launcher = self.directory / "node_modules" / ".bin" / "maitred"
        self.assertEqual(get([launcher, "run"], self.directory, "/z"), "from Node.js /z")

    def test_3_the_interpreter_of_the_launcher_runs_the_program(self):
        with tempfile.TemporaryDirectory() as other:
            # Another Node.js, in a directory that is not in PATH; the one in PATH is none.
            node = Path(other, "node")
            shutil.copy2(os.path.realpath(shutil.which("node")), node)
            broken = Path(other, "path")
            broken.mkdir()
            (broken / "node").write_text("#!/bin/sh\nexit 9\n")
            (broken / "node").chmod(0o755)
            (self.directory / "whose.js").write_text(
                "require('maitred').listen((request, response) => response.end(process.execPath + request.url));\n"
            )
            launcher = self.directory / "node_modules" / "maitred" / "bin" / "maitred.js"
            words = [node, launcher, "app", "whose.js", "--listen", "127.0.0.1:0"]
            self.assertEqual(get(words, self.directory, "/x", {"PATH": f"{broken}:/usr/bin:/bin"}), f"{node}/x")

    def test_4_licences_are_there_and_no_scripts(self):
        for name in ("maitred", "maitred-linux-x64"):
            package = self.directory / "node_modules" / name
            self.assertTrue({"LICENSE-MIT", "LICENSE-APACHE"} <= {path.name for path in package.iterdir()}, name)
            self.assertNotIn("scripts", json.loads((package / "package.json").read_text()))

    def test_5_without_the_executable_it_says_so(self):
        shutil.rmtree(self.directory / "node_modules" / "maitred-linux-x64")
        text = run("node", "node_modules/maitred/bin/maitred.js", "--version", cwd=self.directory, status=1)
        self.assertIn("maitred-linux-x64", text)


if __name__ == "__main__":
    unittest.main()
