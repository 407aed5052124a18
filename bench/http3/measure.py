#!/usr/bin/env python3
"""HTTP/3 of Maitred beside nginx and Caddy: CPU time of the server per request in alternating rounds, memory per idle
connection, a download over a slow path, and what HTTP/3 costs the other protocols.

Usage: measure.py BINARIES CHROOT [--rounds N] [--only NAME,...] [--scenarios NAME,...] > raw.json

BINARIES has `maitred`, `maitred-load`, `maitred-udp-proxy`, and perhaps `caddy`; CHROOT has nginx
(mmdebstrap --variant=apt --include=nginx trixie CHROOT). Needs root and openssl. Servers on CPU 0, the generator on CPU 1. CPU
time is that of /proc/PID/schedstat, in nanoseconds, of all threads."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"1k": 1 << 10, "100k": 100 << 10, "10m": 10 << 20}
# Path, connections, streams of each, requests of a round.
SCENARIOS = {"1k": (64, 64, 150_000), "100k": (16, 4, 10_000), "10m": (2, 1, 60)}
IDLE = 2000


class Server:
    """One server, as a process or a process and its child."""

    def __init__(self, name, arguments, settings):
        self.name, self.settings = name, settings
        self.port = None
        kind, options = arguments
        getattr(self, "start_" + kind)(options)

    def start_maitred(self, options):
        directory = self.settings.directory
        self.port = options["PORT"]
        path = f"{directory}/{self.name}.toml"
        with open(path, "w") as file:
            file.write(f"[server]\nthreads = 1\nshare_user = true\naffinity = \"off\"\n[log]\naccess = \"off\"\n"
                       f"[limits]\nconnections_per_address_max = 100000\nkeep_alive_timeout = \"300s\"\n"
                       f"requests_per_connection_max = 1000000000\n"
                       f"[[listen]]\naddress = \"127.0.0.1:{self.port}\"\ntls = {{}}\nhttp3 = {options['HTTP3']}\n"
                       f"[[site]]\nroot = \"{directory}/www\"\n"
                       f"certificates = [{{ certificate = \"{directory}/cert.pem\", key = \"{directory}/key.pem\" }}]\n")
        command = ["taskset", "-c", "0", f"{self.settings.binaries}/maitred", "run", "-c", path]
        self.process = subprocess.Popen(command, stderr=open(f"{directory}/{self.name}.log", "w"))
        time.sleep(2)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.pids = [int(pid) for pid in children.split()]

    def start_nginx(self, options):
        root = pathlib.Path(self.settings.chroot)
        self.port = options["PORT"]
        text = (HERE / "nginx.conf").read_text()
        for key, value in {**options, "NAME": self.name}.items():
            text = text.replace(f"@{key}@", str(value))
        (root / f"bake/{self.name}.conf").write_text(text)
        command = ["taskset", "-c", "0", "chroot", str(root), "nginx", "-c", f"/bake/{self.name}.conf", "-g", "daemon off;"]
        self.process = subprocess.Popen(command)
        time.sleep(1)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.pids = [int(pid) for pid in children.split()]

    def start_caddy(self, options):
        directory = self.settings.directory
        self.port = options["PORT"]
        path = f"{directory}/Caddyfile"
        with open(path, "w") as file:
            file.write(f"{{\n admin off\n auto_https off\n servers {{\n  protocols h1 h2 h3\n }}\n}}\n"
                       f"https://localhost:{self.port} {{\n bind 127.0.0.1\n tls {directory}/cert.pem {directory}/key.pem\n"
                       f" root * {directory}/www\n file_server\n}}\n")
        environment = {**os.environ, "GOMAXPROCS": "1", "XDG_CONFIG_HOME": directory, "XDG_DATA_HOME": directory}
        command = ["taskset", "-c", "0", f"{self.settings.binaries}/caddy", "run", "--config", path, "--adapter", "caddyfile"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(2)
        self.pids = [self.process.pid]

    def cpu(self):
        nanos = 0
        for pid in self.pids:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                nanos += int((task / "schedstat").read_text().split()[0])
        return nanos / 1e3

    def split(self):
        """User and system time of the process, in ticks."""
        fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.pids]
        return sum(int(field[11]) for field in fields), sum(int(field[12]) for field in fields)

    def private(self):
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_"))
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        output = self.process.communicate()[0]
        return output


def load(settings, server, path, connections, streams, requests, *more):
    command = ["taskset", "-c", "1", f"{settings.binaries}/maitred-load", "repeat", "/" + path, "--to", f"https://localhost:{server.port}",
               "--insecure", "--http3", "--quiet", "--json", "-c", str(connections), "-s", str(streams), *more]
    if requests:
        command += ["-n", str(requests)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def round_of(settings, server, scenario):
    connections, streams, requests = SCENARIOS[scenario]
    before, split_before = server.cpu(), server.split()
    output = load(settings, server, scenario, connections, streams, requests).communicate()[0]
    after, split_after = server.cpu(), server.split()
    report = json.loads(output)
    user, system = (split_after[i] - split_before[i] for i in (0, 1))
    return {
        "cpu": (after - before) / report["responses"], "requests": report["responses"], "failed": report["failed"],
        "system_share": system / max(user + system, 1), "client_cpu": report["cpu"] * 1e6 / report["responses"],
        "per_second": report["responses_per_second"], "bytes": report["body_bytes"], "connections": report["connections"],
        "p50_us": report["latency_us"]["quantiles"][0][1], "p99_us": report["latency_us"]["quantiles"][4][1],
        "load": os.getloadavg()[0],
    }


def idle_of(settings, make):
    server = make()
    # What is made once for all: certificates, tables, the first connection.
    load(settings, server, "1k", 1, 1, 100).communicate()
    before = server.private()
    client = load(settings, server, "1k", 0, 1, None, "--idle", str(IDLE), "--duration", "16s")
    time.sleep(13)
    after = server.private()
    report = json.loads(client.communicate()[0])
    server.stop()
    return {"bytes": (after - before) / IDLE, "connections": report["connections"], "failed": report["failed"]}


def prepare(settings, sizes=None):
    directory = settings.directory
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(["openssl", "req", "-x509", *curve, "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", f"{directory}/key.pem", "-out", f"{directory}/cert.pem"],
                   check=True, stderr=subprocess.DEVNULL)
    for what, more in (("cert", ["x509"]), ("key", ["pkcs8", "-topk8", "-nocrypt"])):
        subprocess.run(["openssl", *more, "-in", f"{directory}/{what}.pem", "-outform", "DER", "-out", f"{directory}/{what}.der"],
                       check=True)
    www = pathlib.Path(directory) / "www"
    www.mkdir()
    for name, size in (sizes or SIZES).items():
        (www / name).write_bytes(bytes((at * 31 >> 3) & 0xff for at in range(4096)) * (size // 4096) or b"x" * size)
    bake = pathlib.Path(settings.chroot) / "bake"
    shutil.rmtree(bake, ignore_errors=True)
    shutil.copytree(directory, bake)


def main():
    parser = argparse.ArgumentParser()
    for name in ("binaries", "chroot"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--scenarios", default="1k,100k,10m,idle")
    settings = parser.parse_args()
    settings.directory = tempfile.mkdtemp(prefix="bake")
    prepare(settings)
    everybody = {
        "maitred": ("maitred", {"PORT": 18440, "HTTP3": "true"}),
        "nginx": ("nginx", {"PORT": 18443, "GSO": "off", "MORE": ""}),
        "nginx-gso": ("nginx", {"PORT": 18444, "GSO": "on", "MORE": ""}),
        "caddy": ("caddy", {"PORT": 18445}),
    }
    names = settings.only.split(",") if settings.only else ["maitred", "nginx", "nginx-gso"]
    results = {}
    scenarios = settings.scenarios.split(",")
    servers = {name: Server(name, everybody[name], settings) for name in names}
    for scenario in [name for name in scenarios if name in SCENARIOS]:
        rows = results[scenario] = {name: {"rounds": []} for name in names}
        for number in range(settings.rounds + 1):
            for name in names if number % 2 else reversed(names):
                seen = round_of(settings, servers[name], scenario)
                print(f"{scenario} {name} {seen['cpu']:.2f} µs {seen['per_second']:.0f}/s {seen['failed']}", file=sys.stderr)
                # The first one warms up.
                if number:
                    rows[name]["rounds"].append(seen)
        for row in rows.values():
            row["cpu"] = statistics.median(seen["cpu"] for seen in row["rounds"])
        if "nginx" in rows:
            for row in rows.values():
                pairs = zip(row["rounds"], rows["nginx"]["rounds"])
                row["ratios"] = sorted(round(seen["cpu"] / base["cpu"], 3) for seen, base in pairs)
    counts = {name: server.stop() for name, server in servers.items()}
    results["counts"] = {name: text.strip() for name, text in counts.items() if text}
    if "idle" in scenarios:
        results["idle"] = {name: idle_of(settings, lambda: Server(name, everybody[name], settings)) for name in names}
    json.dump(results, sys.stdout, indent=1)
    print()
    shutil.rmtree(settings.directory)


if __name__ == "__main__":
    main()
