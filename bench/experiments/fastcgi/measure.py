#!/usr/bin/env python3
"""What a request to PHP costs in front of php-fpm: Maitred beside nginx and lighttpd.

All speak FastCGI over a Unix socket with the same php-fpm, which answers with so many bytes; nginx also with connections that
it keeps, to processes of their own, since each kept connection holds one. All are configured with the one script for all paths,
without an access log. The figure is the CPU time of the server's own processes per request, without php-fpm's, which is printed
beside it: rounds are interleaved, medians.

    measure.py MAITRED [--rounds 5] [--seconds 3]

Servers on CPU 0, php-fpm and wrk on CPU 1. Debian: nginx-light lighttpd php-fpm wrk.
"""

import argparse
import glob
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request

TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")
PORTS = {"maitred": 18991, "nginx": 18992, "nginx, connections kept": 18994, "lighttpd": 18993}

FPM = """
[global]
error_log = {at}/fpm.log
daemonize = no
[www]
user = root
group = root
listen = {at}/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 2
[kept]
user = root
group = root
listen = {at}/kept.sock
listen.mode = 0666
pm = static
pm.max_children = 2
"""

MAITRED = """
[server]
threads = 1
affinity = "off"
share_user = true
[log]
access = "off"
[[listen]]
address = "127.0.0.1:18991"
[[site]]
[[site.route]]
path = "/*"
pool = "php"
[pool.php]
connect = "fastcgi+unix:{at}/fpm.sock"
root = "{at}/www"
php = true
"""

NGINX = """
worker_processes 1;
pid {at}/nginx.pid;
error_log {at}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    upstream kept {{
        server unix:{at}/kept.sock;
        keepalive 2;
    }}
    server {{
        listen 127.0.0.1:18994;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {at}/www/index.php;
            fastcgi_keep_conn on;
            fastcgi_pass kept;
        }}
    }}
    server {{
        listen 127.0.0.1:18992;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {at}/www/index.php;
            fastcgi_pass unix:{at}/fpm.sock;
        }}
    }}
}}
"""

LIGHTTPD = """
server.modules = ("mod_fastcgi", "mod_rewrite")
server.document-root = "{at}/www"
server.bind = "127.0.0.1"
server.port = 18993
server.errorlog = "{at}/lighttpd.log"
url.rewrite-once = ("" => "/index.php")
fastcgi.server = (".php" => (("socket" => "{at}/fpm.sock")))
"""


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu(pid):
    """CPU time of a process and of those below it, in microseconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US + sum(map(cpu, children(pid)))


def start(command, cpu_number):
    return subprocess.Popen(
        ["taskset", "-c", str(cpu_number), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def wait_for(address, length):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            body = urllib.request.urlopen(address, timeout=1).read()
        except OSError:
            continue
        if len(body) != length:
            raise SystemExit(f"{address} answers with {len(body)} bytes: {body[:200]}")
        return
    raise SystemExit(f"{address} does not answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("maitred")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--raw", help="where all figures go, as JSON")
    options = parser.parse_args()
    raw = {}
    for length in (1024, 100 * 1024):
        with tempfile.TemporaryDirectory() as at:
            os.chmod(at, 0o755)
            os.mkdir(f"{at}/www")
            pathlib.Path(f"{at}/www/index.php").write_text(f"<?php echo str_repeat('x', {length});")
            for name, text in (("fpm", FPM), ("maitred", MAITRED), ("nginx", NGINX), ("lighttpd", LIGHTTPD)):
                pathlib.Path(f"{at}/{name}.conf").write_text(text.format(at=at))
            os.rename(f"{at}/maitred.conf", f"{at}/maitred.toml")
            fpm = start([glob.glob("/usr/sbin/php-fpm*")[0], "-R", "-n", "-y", f"{at}/fpm.conf"], 1)
            while not os.path.exists(f"{at}/fpm.sock") and fpm.poll() is None:
                pass
            servers = {
                "maitred": start([options.maitred, "run", "-c", f"{at}/maitred.toml"], 0),
                "nginx": start(["nginx", "-c", f"{at}/nginx.conf", "-g", "daemon off;"], 0),
                "lighttpd": start(["lighttpd", "-D", "-f", f"{at}/lighttpd.conf"], 0),
            }
            try:
                for name, port in PORTS.items():
                    wait_for(f"http://127.0.0.1:{port}/", length)
                figures = {name: [] for name in PORTS}
                for _ in range(options.rounds):
                    for name in PORTS:
                        server = servers[name.split(",")[0]]
                        before = cpu(server.pid), cpu(fpm.pid)
                        said = subprocess.run(
                            ["taskset", "-c", "1", "wrk", "-t1", "-c16", f"-d{options.seconds}"]
                            + [f"http://127.0.0.1:{PORTS[name]}/"],
                            capture_output=True,
                            check=True,
                            text=True,
                        ).stdout
                        requests = int(said.split(" requests in")[0].split()[-1])
                        if "Non-2xx" in said:
                            raise SystemExit(f"{name}: {said}")
                        figures[name].append(
                            [(now - then) / requests for now, then in zip((cpu(server.pid), cpu(fpm.pid)), before)]
                        )
                raw[length] = figures
                for name, rounds in figures.items():
                    own, php = (statistics.median(part) for part in zip(*rounds))
                    low, high = (pick(one for one, _ in rounds) for pick in (min, max))
                    print(f"{length:7} bytes  {name:23} {own:6.1f} us ({low:.1f} to {high:.1f}), php-fpm {php:.1f} us")
            finally:
                for process in (*servers.values(), fpm):
                    process.send_signal(signal.SIGTERM)
                    process.wait()
    if options.raw:
        pathlib.Path(options.raw).write_text(json.dumps(raw, indent=1))


main()
