"""The examples of the repository, each as its maitred.toml says, behind the real Maitred."""

import importlib.util
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "adapters" / "differential"))

if sys.version_info >= (3, 11):
    from client import Connection
    from servers import Process, StartFailed, binary, listening

    try:
        MAITRED = binary()
    except StartFailed:
        MAITRED = None
else:
    MAITRED = None


def get(address, target):
    """Status and body."""
    with Connection(address) as connection:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        response = connection.response()
        return response.status, response.body.decode()


@unittest.skipUnless(MAITRED, "there is no debug build of maitred (cargo build -p maitred), or Python is older than 3.11")
class Examples(unittest.TestCase):
    def run_example(self, name, modules, check):
        for module in modules:
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"{module} is not installed")
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, name)
            shutil.copytree(ROOT / "examples" / name, copy)
            path = copy / "maitred.toml"
            text = path.read_text()
            changed = text.replace('":8080"', '"127.0.0.1:0"').replace("../../adapters/python", str(ROOT / "adapters/python"))
            self.assertEqual(text.count('":8080"'), 1)
            # However long the application takes to start on a busy machine.
            path.write_text(changed.replace("[pool.web]\n", '[pool.web]\nqueue = { timeout = "60s" }\n'))
            # `python3` is the one that runs this test.
            variables = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
            process = Process([str(MAITRED), "run", "-c", str(path)], copy, variables, Path(directory, "log"))
            try:
                check(process.until("saying where it listens", lambda: listening(process)))
            finally:
                process.stop()

    def test_flask(self):
        self.run_example("flask", ["flask"], lambda address: self.page(address, "Flask behind Maitred"))

    def test_django(self):
        self.run_example("django", ["django", "gunicorn"], lambda address: self.page(address, "Django behind Maitred"))

    def test_fastapi(self):
        self.run_example("fastapi", ["fastapi", "uvicorn"], lambda address: self.page(address, "FastAPI behind Maitred"))

    def test_starlette(self):
        self.run_example("starlette", ["starlette"], lambda address: self.page(address, "Starlette behind Maitred"))

    def test_site(self):
        self.run_example("site", [], lambda address: self.assertEqual(get(address, "/app/")[0], 200))

    def page(self, address, text):
        status, body = get(address, "/")
        self.assertEqual(status, 200, body)
        self.assertIn(text, body)
        self.assertEqual(get(address, "/status/418")[0], 418)


if __name__ == "__main__":
    unittest.main()
