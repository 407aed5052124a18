#!/usr/bin/env python3
"""Why do servers of one configuration fall into different speeds at dynamic responses of 1 KB?

Starts the same server many times, measures each life in several windows, and writes for each window what it cost and what it
did: CPU time per request of the server's worker process and of the application, system and user, context switches, requests
per message to the application, and turns of the event loop. If the speed is a property of a life, the windows of a life agree
with one another and the lives do not; the columns say what else differs between fast and slow lives.

    measure.py MAITRED WORKER [--lives 12] [--windows 3] [--seconds 2] [--transport direct]

Server and application on CPU 0, wrk on CPU 1. Linux, wrk, taskset.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request

CONFIG = """
[server]
threads = 1
affinity = "off"
admin = "unix:{directory}/admin.sock"
share_user = true
[log]
access = "off"
[[listen]]
address = "127.0.0.1:{port}"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
[pool.app]
command = ["{worker}"]
workers = 1
transport = "{transport}"
"""

TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


def children(pid):
    listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def tree(pid):
    return [pid, *(found for child in children(pid) for found in tree(child))]


def name(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def used(pid):
    """User and system time in nanoseconds, and voluntary and involuntary switches, of all threads of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    user, system = (int(fields[at]) * TICK_US for at in (11, 12))
    switches = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        for line in pathlib.Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines():
            if "ctxt_switches" in line:
                key, value = line.split(":")
                switches[key] = switches.get(key, 0) + int(value)
    return user, system, switches["voluntary_ctxt_switches"], switches["nonvoluntary_ctxt_switches"]


def wait_for(address):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            return urllib.request.urlopen(address, timeout=1).read()
        except OSError:
            continue
    raise SystemExit(f"{address} does not answer")


def totals(maitred, config):
    shown = subprocess.run([maitred, "status", "-c", config, "--json"], capture_output=True, check=True)
    return json.loads(shown.stdout)["totals"]


def window(maitred, config, processes, address, seconds):
    before = {role: used(pid) for role, pid in processes.items()}
    counted = totals(maitred, config)
    wrk = ["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{seconds}", address]
    said = subprocess.run(wrk, capture_output=True, check=True, text=True).stdout
    if "Non-2xx" in said:
        raise SystemExit(said)
    after = {role: used(pid) for role, pid in processes.items()}
    more = totals(maitred, config)
    change = {key: more[key] - counted[key] for key in ("handoffs", "handoff_batches", "turns", "relayed")}
    requests = change["handoffs"]
    line = {"requests": requests, "per_second": requests / seconds, "wrk": said.split("Requests/sec:")[1].split()[0]}
    for role in processes:
        user, system, voluntary, forced = (b - a for a, b in zip(before[role], after[role]))
        line[role] = {
            "user_us": user / requests,
            "system_us": system / requests,
            "waits": voluntary / requests,
            "preempted": forced / requests,
        }
    line["total_us"] = sum(line[role]["user_us"] + line[role]["system_us"] for role in processes)
    line["batch"] = requests / max(1, change["handoff_batches"])
    line["relayed"] = change["relayed"] / requests
    line["per_turn"] = requests / max(1, change["turns"])
    return line


def life(options, number):
    port = 18950 + number % 40
    with tempfile.TemporaryDirectory() as directory:
        config = f"{directory}/maitred.toml"
        worker = os.path.abspath(options.worker)
        text = CONFIG.format(directory=directory, port=port, worker=worker, transport=options.transport)
        pathlib.Path(config).write_text(text)
        server = subprocess.Popen(
            ["taskset", "-c", "0", options.maitred, "run", "-c", config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{port}/bytes/{options.bytes}"
            wait_for(address)
            others = tree(server.pid)[1:]
            application = [pid for pid in others if name(pid) == os.path.abspath(options.worker)]
            front = [pid for pid in others if pid not in application]
            processes = {"server": front[0], "application": application[0]}
            window(options.maitred, config, processes, address, 1)
            return [
                window(options.maitred, config, processes, address, options.seconds) for _ in range(options.windows)
            ]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("maitred")
    parser.add_argument("worker")
    parser.add_argument("--lives", type=int, default=12)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--transport", default="direct")
    parser.add_argument("--raw", help="where all figures go, as JSON")
    options = parser.parse_args()
    lives = []
    print(f"{options.transport}: life, total us per request in each window; server, application; batch; requests a turn; waits")
    for number in range(options.lives):
        windows = life(options, number)
        lives.append(windows)
        middle = sorted(windows, key=lambda line: line["total_us"])[len(windows) // 2]
        print(
            f"{number:3}  " + " ".join(f"{line['total_us']:5.2f}" for line in windows),
            *(
                f"{role} {middle[role]['user_us']:.2f}+{middle[role]['system_us']:.2f}"
                for role in ("server", "application")
            ),
            f"batch {middle['batch']:.1f}",
            f"turn {middle['per_turn']:.1f}",
            "relayed " + " ".join(f"{line['relayed']:.2f}" for line in windows),
            f"waits {middle['server']['waits']:.3f} {middle['application']['waits']:.3f}",
            f"preempted {middle['server']['preempted']:.3f} {middle['application']['preempted']:.3f}",
            sep="  ",
            flush=True,
        )
    medians = [statistics.median(line["total_us"] for line in windows) for windows in lives]
    within = [max(l["total_us"] for l in windows) - min(l["total_us"] for l in windows) for windows in lives]
    print(
        f"between lives: {min(medians):.2f} to {max(medians):.2f}, median {statistics.median(medians):.2f};"
        f" within a life: median spread {statistics.median(within):.2f}"
    )
    if options.raw:
        pathlib.Path(options.raw).write_text(json.dumps(lives, indent=1))


main()
