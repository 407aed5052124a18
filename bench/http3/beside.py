#!/usr/bin/env python3
"""What HTTP/3 costs the other protocols of a server that has it: CPU time per request over TLS with HTTP/1.1 and HTTP/2, with
`http3` on and off, in alternating rounds. Responses have `Alt-Svc` where it is on.

Usage: beside.py BINARIES CHROOT [--rounds N] > beside.json

BINARIES and CHROOT are those of measure.py; h2load makes the load (nghttp2-client)."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import Server, prepare

REQUESTS = 120_000
PROTOCOLS = {"HTTP/1.1": ["--h1", "-c", "32", "-m", "1"], "HTTP/2": ["-c", "16", "-m", "32"]}
SERVERS = {
    "on": ("maitred", {"PORT": 18440, "HTTP3": "true"}),
    "off": ("maitred", {"PORT": 18441, "HTTP3": "false"}),
}


def round_of(server, protocol):
    before = server.cpu()
    command = ["taskset", "-c", "1", "h2load", "-n", str(REQUESTS), "-t", "1", *PROTOCOLS[protocol],
               f"https://localhost:{server.port}/1k"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"{REQUESTS} succeeded" in output, output
    return (server.cpu() - before) / REQUESTS


def main():
    parser = argparse.ArgumentParser()
    for name in ("binaries", "chroot"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=7)
    settings = parser.parse_args()
    settings.directory = tempfile.mkdtemp(prefix="beside")
    prepare(settings)
    servers = {name: Server(name, start, settings) for name, start in SERVERS.items()}
    results = {}
    for protocol in PROTOCOLS:
        rows = {name: [] for name in servers}
        for number in range(settings.rounds + 1):
            for name in servers if number % 2 else reversed(servers):
                seen = round_of(servers[name], protocol)
                print(f"{protocol}, http3 {name}: {seen:.2f} µs", file=sys.stderr)
                # The first one warms up.
                if number:
                    rows[name].append(seen)
        ratios = sorted(on / off for on, off in zip(rows["on"], rows["off"]))
        results[protocol] = {**rows, "ratio": statistics.median(ratios), "ratios": ratios}
    for server in servers.values():
        server.stop()
    json.dump(results, sys.stdout, indent=1)
    print()
    shutil.rmtree(settings.directory)


main()
