#!/usr/bin/env python3
"""20 MB over a path of 40 ms there and back, without loss and with 1 % of it, from Maitred and from nginx: the time of each
download in alternating rounds. The path is maitred-udp-proxy, the client maitred-load (windows of a browser).

Usage: path.py BINARIES CHROOT [--rounds N] > path.json

BINARIES and CHROOT are those of measure.py."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import Server, prepare

BYTES = 20_000_000
PATHS = {"40 ms": ["--delay", "20"], "40 ms, 1 % lost": ["--delay", "20", "--loss", "10"]}
SERVERS = {
    "maitred": ("maitred", {"PORT": 18440, "HTTP3": "true"}),
    "nginx": ("nginx", {"PORT": 18443, "GSO": "off", "MORE": ""}),
    "nginx-gso": ("nginx", {"PORT": 18444, "GSO": "on", "MORE": ""}),
}


def download(settings, server, path):
    proxy = subprocess.Popen([f"{settings.binaries}/maitred-udp-proxy", "--to", f"127.0.0.1:{server.port}", *PATHS[path]],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = proxy.stdout.readline().split()[-1]
    command = [f"{settings.binaries}/maitred-load", "repeat", "/20m", "--to", f"https://localhost:{address.rsplit(':', 1)[1]}",
               "--insecure", "--http3", "--quiet", "--json", "-c", "1", "-s", "1", "-n", "1", "--duration", "10m", "--timeout", "5m"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    proxy.terminate()
    proxy.wait()
    seconds = report["latency_us"]["quantiles"][0][1] / 1e6
    return {"seconds": seconds, "megabytes_per_second": BYTES / seconds / 1e6, "failed": report["failed"]}


def main():
    parser = argparse.ArgumentParser()
    for name in ("binaries", "chroot"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    settings.directory = tempfile.mkdtemp(prefix="path")
    prepare(settings, {"20m": BYTES})
    servers = {name: Server(name, start, settings) for name, start in SERVERS.items()}
    results = {}
    for path in PATHS:
        rows = results[path] = {name: [] for name in servers}
        for number in range(settings.rounds):
            for name in servers if number % 2 else reversed(servers):
                seen = download(settings, servers[name], path)
                print(f"{path}: {name} {seen['seconds']:.2f} s {seen['failed']}", file=sys.stderr)
                rows[name].append(seen)
        base = statistics.median(seen["seconds"] for seen in rows["nginx"])
        for name, row in rows.items():
            median = statistics.median(seen["seconds"] for seen in row)
            results[path][name] = {"rounds": row, "seconds": median, "times_faster_than_nginx": base / median}
    for server in servers.values():
        server.stop()
    json.dump(results, sys.stdout, indent=1)
    print()
    shutil.rmtree(settings.directory)


main()
