#!/usr/bin/env python3
"""Uploads that go to a server while they come, beside nginx with `proxy_request_buffering off`.

    python3 bench/experiments/upload/measure.py target/release/maitred [GIGABYTES] [ROUNDS]

One thread of each, on loopback. Prints seconds, CPU seconds of the process that passes the upload on, and the most memory that it
has had (VmHWM).
"""

import re
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PATIENCE_S = 30

MAITRED = """
[server]
threads = 1
share_user = true
admin = "unix:{directory}/admin.sock"
state = "{directory}/state"
[[listen]]
address = "127.0.0.1:{port}"
[log]
access = "off"
[pool.app]
connect = "http://127.0.0.1:{sink}"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
request_buffering = "off"
limits = {{ body_bytes_max = "60g" }}
"""

NGINX = """
worker_processes 1; daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{}}
http {{
    access_log off; client_max_body_size 0;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{sink}; proxy_request_buffering off; proxy_http_version 1.1; }}
    }}
}}
"""


def serve(listener):
    """Reads a body, and says that it has come."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=take, args=(connection,), daemon=True).start()


def take(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    head, rest = head.split(b"\r\n\r\n", 1)
    left = int(re.search(rb"content-length: (\d+)", head.lower())[1]) - len(rest)
    room = memoryview(bytearray(1 << 20))
    while left > 0 and (received := connection.recv_into(room)):
        left -= received
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    connection.close()


def upload(port, total):
    began, piece, left = time.monotonic(), bytes(1 << 20), total
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % total)
        while left > 0:
            left -= client.send(piece[:left])
        answer = client.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"no success: {answer!r}")
    return time.monotonic() - began


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def passes_on(server, port):
    """The process that serves clients, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        children = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False).stdout.split()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
            continue
        if children:
            return int(children[0])
    raise SystemExit("a server has not started")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    binary, gigabytes, rounds = sys.argv[1], int((sys.argv[2:] or ["10"])[0]), int((sys.argv[3:] or ["3"])[0])
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        servers = []
        for name, text, command in [("maitred", MAITRED, [binary, "run", "-c"]), ("nginx", NGINX, ["nginx", "-c"])]:
            port = free_port()
            file = Path(directory, name)
            file.write_text(text.format(directory=directory, port=port, sink=listener.getsockname()[1]))
            server = subprocess.Popen([*command, str(file)], stderr=subprocess.DEVNULL)
            servers.append((name, port, server, passes_on(server, port)))
        for _ in range(rounds):
            for name, port, _, pid in servers:
                before = cpu_seconds(pid)
                seconds = upload(port, gigabytes * 10**9)
                used = cpu_seconds(pid) - before
                most = re.search(r"VmHWM:\s+(.*)", Path(f"/proc/{pid}/status").read_text())[1]
                print(f"{name}: {seconds:.1f} s, {used:.2f} s of CPU, {most}", flush=True)
        for _, _, server, _ in servers:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
