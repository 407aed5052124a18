"""Handoff against proxying, over response sizes: CPU of front and application together, per request.

    cargo build --release -p maitred
    cargo build --release -p maitred-handoff --example worker
    python3 bench/handoff/measure.py OUT_DIRECTORY [ROUNDS [SECONDS]]

Server side on CPU 0, wrk on CPU 1, rounds interleaved, medians, ratios inside the run only. Measured are the floor
(bench/floor/floor.c with a body of that size: also "the application accepts by itself"), Maitred with the Rust example worker by
`direct`, `relay` and `auto`, and nginx as a proxy to the floor over keep-alive connections, which is the cheapest
application that a proxy can have.
"""

import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = [100, 1024, 4096, 16384, 65536, 102400, 1 << 20, 10 << 20]
CONNECTIONS = {1 << 20: 16, 10 << 20: 8}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise


def tree(pid):
    """The process and all below it."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def cpu_ticks(pids):
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


class Servers:
    def __init__(self, scratch):
        self.scratch, self.running = pathlib.Path(scratch), []

    def start(self, *command):
        process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        return process.pid

    def floor(self, size):
        port = free_port()
        pid = self.start(str(self.scratch / "floor"), "-s", str(size), str(port))
        wait_for(port)
        return port, [pid]

    def proxy(self, size):
        backend, pids = self.floor(size)
        port = free_port()
        config = self.scratch / f"nginx-{size}.conf"
        config.write_text(
            f"""daemon off; worker_processes 1; pid {self.scratch}/nginx-{size}.pid; error_log stderr;
events {{ worker_connections 4096; }}
http {{ access_log {self.scratch}/nginx.log combined buffer=64k; keepalive_requests 1000000000;
  proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
  upstream app {{ server 127.0.0.1:{backend}; keepalive 128; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
        )
        pid = self.start("nginx", "-p", str(self.scratch), "-c", str(config))
        wait_for(port)
        return port, [pid, *pids]

    def maitred(self, transport):
        port = free_port()
        config = self.scratch / f"{transport}.toml"
        config.write_text(
            f"""[server]
threads = 1
affinity = "off"
[[listen]]
address = "127.0.0.1:{port}"
[[site]]
[[site.route]]
path = "/app/*"
pool = "app"
[pool.app]
command = ["{ROOT}/target/release/examples/worker"]
workers = 1
transport = "{transport}"
[limits]
requests_per_connection_max = 4000000000
[log]
access_file = "{self.scratch}/access.log"
"""
        )
        pid = self.start(str(ROOT / "target/release/maitred"), "run", "-c", str(config))
        wait_for(port)
        return port, [pid]

    def stop(self):
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def measure(port, pids, size, seconds):
    """CPU microseconds per request, and requests per second."""
    connections = CONNECTIONS.get(size, 64)
    everybody = [pid for root in pids for pid in tree(root)]
    before = cpu_ticks(everybody)
    url = f"http://127.0.0.1:{port}/app/bytes/{size}"
    said = subprocess.run(
        ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}", url], capture_output=True, text=True
    ).stdout
    used = cpu_ticks(everybody) - before
    requests = int(re.search(r"(\d+) requests in", said).group(1))
    bad = re.search(r"Non-2xx.*|Socket errors.*", said)
    if bad:
        raise SystemExit(f"{url}: {bad.group(0)}")
    return used * 1e6 / os.sysconf("SC_CLK_TCK") / max(requests, 1), requests / seconds


def main():
    out = pathlib.Path(sys.argv[1])
    rounds, seconds = (int(argument) for argument in (sys.argv[2:] + ["5", "2"][len(sys.argv) - 2 :]))
    out.mkdir(parents=True, exist_ok=True)
    raw = {}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["cc", "-O2", "-o", f"{scratch}/floor", str(ROOT / "bench/floor/floor.c")], check=True)
        for size in SIZES:
            servers = Servers(scratch)
            try:
                kinds = {transport: servers.maitred(transport) for transport in ("direct", "relay", "auto")}
                kinds = {"floor": servers.floor(size), **kinds, "nginx": servers.proxy(size)}
                for _ in range(rounds):
                    for kind, (port, pids) in kinds.items():
                        cost, rate = measure(port, pids, size, seconds)
                        raw.setdefault(str(size), {}).setdefault(kind, []).append([round(cost, 3), round(rate)])
            finally:
                servers.stop()
            print(size, {kind: statistics.median(cost for cost, _ in runs) for kind, runs in raw[str(size)].items()}, flush=True)
    (out / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    rows = ["| response | floor | direct | relay | auto | nginx |", "|---|---|---|---|---|---|"]
    for size, kinds in raw.items():
        median = {kind: statistics.median(cost for cost, _ in runs) for kind, runs in kinds.items()}
        cells = " | ".join(f"{median[kind] / median['floor']:.2f}" for kind in ("floor", "direct", "relay", "auto", "nginx"))
        rows.append(f"| {int(size):,} B | {cells} |")
    (out / "summary.md").write_text("\n".join(rows) + "\n")
    print("\n".join(rows))


main()
