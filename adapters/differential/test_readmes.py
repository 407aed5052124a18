"""The first steps in the adapters' READMEs, word for word, in an empty directory."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from client import Connection
from servers import Process, StartFailed, binary, listening

ADAPTERS = Path(__file__).resolve().parent.parent
SECTION = "## First steps\n"
# Where the reader is to write the path of a checkout.
PLACEHOLDER = "/path/to/maitred"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"(?://|#) (\S+)\n")
START = "maitred run -c maitred.toml"
COMMAND_S = 120
# What the adapter's package.json wants.
NODE_MIN = 20

try:
    MAITRED = binary()
except StartFailed:
    MAITRED = None


def steps(adapter):
    """Files by name, and commands, of a README."""
    text = (ADAPTERS / adapter / "README.md").read_text()
    text = text.split(SECTION)[1].split("\n## ")[0].replace(PLACEHOLDER, str(ADAPTERS.parent))
    files, commands = {}, []
    for language, block in BLOCK.findall(text):
        if language == "sh":
            commands += block.splitlines()
        else:
            files[NAMED.match(block)[1]] = block
    return files, commands


@unittest.skipUnless(MAITRED, "there is no debug build of maitred (cargo build -p maitred)")
class FirstSteps(unittest.TestCase):
    def follow(self, adapter, program, wanted):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        files, commands = steps(adapter)
        self.assertEqual(commands[-1], START)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name, "first")
            directory.mkdir()
            for file, text in files.items():
                (directory / file).write_text(text)
            # Nothing that has to be downloaded is in the first steps.
            variables = {**os.environ, "GOPROXY": "off", "npm_config_offline": "true", "npm_config_update_notifier": "false"}
            for command in commands[:-1]:
                ran = subprocess.run(
                    command, shell=True, cwd=directory, env=variables, capture_output=True, text=True, timeout=COMMAND_S
                )
                self.assertEqual(ran.returncode, 0, f"{command}: {ran.stdout}{ran.stderr}")
            self.answered(directory, wanted)

    def answered(self, directory, wanted):
        path = directory / "maitred.toml"
        text = path.read_text()
        self.assertEqual(text.count('":8080"'), 1)
        path.write_text(text.replace('":8080"', '"127.0.0.1:0"'))
        process = Process([str(MAITRED), *START.split()[1:]], directory, {}, directory.parent / "log")
        try:
            address = process.until("saying where it listens", lambda: listening(process))
            with Connection(address) as connection:
                connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                response = connection.response()
            self.assertEqual((response.status, response.body.decode()), (200, wanted))
        finally:
            process.stop()

    def test_go(self):
        self.follow("go", "go", "Hello from Go\n")

    def test_node(self):
        version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout if shutil.which("node") else ""
        if int(version.strip().lstrip("v").split(".")[0] or 0) < NODE_MIN:
            self.skipTest(f"Node.js {NODE_MIN} is needed, and there is {version.strip() or 'none'}")
        self.follow("node", "npm", "Hello from Node.js\n")

    def test_python(self):
        self.follow("python", "python3", "Hello from Python\n")


if __name__ == "__main__":
    unittest.main()
