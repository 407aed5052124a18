#!/usr/bin/env python3
"""Compares the floor and the two prototypes: CPU per request in interleaved rounds, instructions per request under
callgrind, and memory per idle connection. Usage: measure.py FLOOR TOKIO EPOLL [ROUNDS [SECONDS]]; prints JSON.

Needs wrk, taskset and valgrind. Server on CPU 0, generator on CPU 1."""

import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

TICKS = os.sysconf("SC_CLK_TCK")
REQUEST = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: measure\r\nAccept: */*\r\n\r\n"
IDLE_CONNECTIONS = 10_000


def start(command, prefix=()):
    process = subprocess.Popen(["taskset", "-c", "0", *prefix, command], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    return process, int(line.split()[1])


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait()
    process.stdout.close()


def cpu_seconds(pid):
    """User and system seconds, from /proc/PID/stat (proc(5))."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Private_"))


def cpu_per_request(command, seconds):
    process, port = start(command)
    wrk = ["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{seconds}s", f"http://127.0.0.1:{port}/index.html"]
    before = cpu_seconds(process.pid)
    output = subprocess.run(wrk, capture_output=True, text=True, check=True).stdout
    after = cpu_seconds(process.pid)
    stop(process)
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    user, system = ((after[i] - before[i]) / requests * 1e6 for i in (0, 1))
    return {"user": user, "system": system, "cpu": user + system, "requests": requests}


def ask(connection):
    connection.sendall(REQUEST)
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, body = received.split(b"\r\n\r\n", 1)
    missing = int(re.search(rb"Content-Length: (\d+)", head).group(1)) - len(body)
    while missing > 0:
        missing -= len(connection.recv(65536))


def connect(port, number):
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(number)]


def instructions(command, requests):
    with tempfile.TemporaryDirectory() as directory:
        out = f"{directory}/out"
        process, port = start(command, ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"])
        connections = connect(port, 8)
        for number in range(requests):
            ask(connections[number % len(connections)])
        stop(process)
        with open(out) as file:
            return int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.M).group(1))


def idle_bytes(command):
    process, port = start(command)
    ask(connect(port, 1)[0])
    before = private_bytes(process.pid)
    connections = connect(port, IDLE_CONNECTIONS)
    for connection in connections:
        ask(connection)
    after = private_bytes(process.pid)
    stop(process)
    for connection in connections:
        connection.close()
    return (after - before) / IDLE_CONNECTIONS


def main():
    servers = dict(zip(("floor", "tokio-tasks", "epoll-loop"), sys.argv[1:4]))
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    seconds = int(sys.argv[5]) if len(sys.argv) > 5 else 4
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    results = {name: {"rounds": []} for name in servers}
    for _ in range(rounds):
        for name, command in servers.items():
            results[name]["rounds"].append(cpu_per_request(command, seconds))
    floor = statistics.median(entry["cpu"] for entry in results["floor"]["rounds"])
    for name, command in servers.items():
        result = results[name]
        for key in ("cpu", "user", "system"):
            result[key] = statistics.median(entry[key] for entry in result["rounds"])
        result["ratio"] = result["cpu"] / floor
        pairs = zip(result["rounds"], results["floor"]["rounds"])
        result["ratios"] = sorted(entry["cpu"] / base["cpu"] for entry, base in pairs)
        result["instructions"] = (instructions(command, 2000) - instructions(command, 1000)) / 1000
        result["idle_bytes"] = idle_bytes(command)
    json.dump(results, sys.stdout, indent=1)
    print()


main()
