"""gtlsclient, the example client of ngtcp2 (Debian: ngtcp2-client): a QUIC stack in C, with options for what may happen to a
connection.

    gtlsclient.py ORIGIN [CASE...]

ORIGIN is where cargo xtask http3 serves its site. Exit status: 0 if all was as it has to be.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from table import Table, check

LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 10_000_000

table = Table()
case = table.case


class Run:
    """What a run has said, and the files that it has got."""

    def __init__(self, said, directory):
        self.said, self.directory = said, Path(directory)

    def file(self, name):
        return (self.directory / name).read_bytes()

    def check_large(self):
        check(len(self.file("large.bin")) == LARGE_BYTES, f"{len(self.file('large.bin'))} bytes")

    def check_said(self, *texts):
        missing = [text for text in texts if text not in self.said]
        check(not missing, lambda: f"it does not say {missing}: {self.said[-2000:]}")


@contextlib.asynccontextmanager
async def run(origin, paths, *options, quiet=True):
    url = urlsplit(origin)
    with tempfile.TemporaryDirectory(prefix="maitred-gtlsclient-") as directory:
        quiet = ["--quiet"] if quiet else ["--no-quic-dump", "--no-http-dump"]
        # Without an address family it takes the first one that the name has.
        process = await asyncio.create_subprocess_exec(
            "gtlsclient", *quiet, f"--download={directory}", "--exit-on-all-streams-close", "--sni=localhost", *options,
            "127.0.0.1", str(url.port), *(origin + path for path in paths),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said = (await process.communicate())[0].decode(errors="replace")
        finally:
            if process.returncode is None:
                process.kill()
        check(process.returncode == 0, f"exit status {process.returncode}: {said[-2000:]}")
        yield Run(said, directory)


@case("9114", "files")
async def files(origin):
    async with run(origin, ["/a.txt", "/large.bin"]) as done:
        check(done.file("a.txt") == b"file a\n", done.file("a.txt"))
        done.check_large()


@case("9114", "fifty requests at once")
async def many(origin):
    async with run(origin, [f"/{number}.js" for number in range(25)], "--nstreams=50") as done:
        check(len(list(done.directory.iterdir())) == 25, "files are missing")


@case("9114", "an upload of 10 MB")
async def upload(origin):
    with tempfile.NamedTemporaryFile() as file:
        content = os.urandom(UPLOAD_BYTES)
        file.write(content)
        file.flush()
        async with run(origin, ["/app/upload"], "--http-method=POST", f"--data={file.name}") as done:
            said = json.loads(done.file("upload"))
            check(said == {"length": UPLOAD_BYTES, "sha256": hashlib.sha256(content).hexdigest()}, said)


@case("9001-6", "a key update in a download")
async def key_update(origin):
    async with run(origin, ["/large.bin"], "--key-update=1ms", quiet=False) as done:
        done.check_said("Initiate key update")
        done.check_large()


@case("9000-9", "migration in a download")
async def migration(origin):
    async with run(origin, ["/large.bin"], "--change-local-addr=1ms", quiet=False) as done:
        done.check_said("Local address is now", "PATH_CHALLENGE", "PATH_RESPONSE")
        done.check_large()


@case("9002", "five of a hundred datagrams are lost, in both directions")
async def loss(origin):
    async with run(origin, ["/large.bin"], "--tx-loss=0.05", "--rx-loss=0.05") as done:
        done.check_large()


@case("9001-4.6", "a session that is resumed with 0-RTT")
async def early_data(origin):
    with tempfile.TemporaryDirectory(prefix="maitred-gtlsclient-") as kept:
        session = [f"--session-file={kept}/session", f"--tp-file={kept}/parameters"]
        async with run(origin, ["/a.txt"], *session):
            pass
        check((Path(kept) / "session").exists(), "no ticket has come")
        async with run(origin, ["/a.txt"], *session, quiet=False) as done:
            done.check_said(" 0RTT STREAM")
            check("Early data was rejected" not in done.said, "the server refuses it")
            check(done.file("a.txt") == b"file a\n", done.file("a.txt"))


@case("9001-5.3", "each cipher suite")
async def ciphers(origin):
    for cipher in ("AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"):
        option = f"--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+{cipher}"
        async with run(origin, ["/large.bin"], option) as done:
            done.check_large()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("origin")
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    table.main(given.case, given.origin)
