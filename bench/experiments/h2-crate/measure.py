#!/usr/bin/env python3
"""CPU time per HTTP/2 request of the h2 crate's experiment, of nginx and of H2O, and per HTTP/1.1 request of the floor, in
interleaved rounds. Usage: measure.py FLOOR H2_CRATE [ROUNDS [SECONDS]]; prints JSON.

Needs nginx, h2o, h2load, wrk and taskset. Servers on CPU 0, generators on CPU 1."""

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

TICKS = os.sysconf("SC_CLK_TCK")
HERE = pathlib.Path(__file__).parent


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_own(command):
    process = subprocess.Popen(["taskset", "-c", "0", command], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline().split()[1])


def start_peer(name, directory, root):
    port, prefix = free_port(), directory / name
    prefix.mkdir()
    template = {"nginx": "nginx.conf", "h2o": "h2o.yaml"}[name]
    text = (HERE / template).read_text()
    for key, value in {"@PORT@": port, "@PREFIX@": prefix, "@ROOT@": root}.items():
        text = text.replace(key, str(value))
    configuration = prefix / template
    configuration.write_text(text)
    command = {
        "nginx": ["nginx", "-p", str(prefix), "-c", str(configuration), "-g", "daemon off;"],
        "h2o": ["h2o", "-c", str(configuration)],
    }[name]
    process = subprocess.Popen(["taskset", "-c", "0", *command], stderr=subprocess.DEVNULL)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, port
        time.sleep(0.05)
    raise SystemExit(f"{name} does not listen")


def tree(root):
    """A process and its descendants."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_seconds(root):
    """User and system seconds of a tree (proc_pid_stat(5))."""
    user = system = 0
    for pid in tree(root):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user / TICKS, system / TICKS


def load(name, port, seconds):
    if name == "floor":
        command = ["wrk", "-t1", "-c64", f"-d{seconds}s", f"http://127.0.0.1:{port}/1k.txt"]
        pattern = r"(\d+) requests in"
    else:
        command = ["h2load", "-t1", "-c16", "-m32", "-D", str(seconds), f"http://127.0.0.1:{port}/1k.txt"]
        pattern = r"(\d+) succeeded, 0 failed"
    output = subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True, check=True).stdout
    return int(re.search(pattern, output).group(1))


def main():
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        os.chmod(directory, 0o755)
        root = directory / "root"
        root.mkdir()
        (root / "1k.txt").write_bytes(b"x" * 1024)
        servers = {"floor": start_own(sys.argv[1]), "h2-crate": start_own(sys.argv[2])}
        for name in ("nginx", "h2o"):
            servers[name] = start_peer(name, directory, root)
        results = {name: {"rounds": []} for name in servers}
        for number in range(rounds + 1):
            for name, (process, port) in servers.items():
                before = cpu_seconds(process.pid)
                requests = load(name, port, seconds if number else 1)
                after = cpu_seconds(process.pid)
                user, system = ((after[i] - before[i]) / requests * 1e6 for i in (0, 1))
                figure = {"user": user, "system": system, "cpu": user + system, "requests": requests}
                # The first round is for warming.
                if number:
                    results[name]["rounds"].append(figure)
                print(name, number, {key: round(value, 2) for key, value in figure.items()}, file=sys.stderr)
        for process, _ in servers.values():
            process.send_signal(signal.SIGTERM)
            process.wait()
    for result in results.values():
        for key in ("cpu", "user", "system"):
            result[key] = statistics.median(entry[key] for entry in result["rounds"])
    json.dump(results, sys.stdout, indent=1)
    print()


main()
