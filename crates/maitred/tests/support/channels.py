"""An external server: it accepts channels on the Unix socket SOCKET, and gives each to a process of its own that runs
the application APPLICATION. It says "listening" when it does. SIGTERM ends it and all its processes at once. The first LEAVING
channels (a variable of the environment) it welcomes itself, and receives nothing on them: its workers are about to go."""

import os
import signal
import socket
import struct
import subprocess
import sys

path, application = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path + ".new")
listener.listen(64)
os.rename(path + ".new", path)
children, kept = [], []
leaving = int(os.environ.get("LEAVING", "0"))
# Flag 1: bodies come through relays (SOCKETS_ONLY).
FLAGS = int(os.environ.get("LEAVING_FLAGS", "0"))
HELLO = struct.pack("<IBBHII", 15, 65, FLAGS, 0, 0, 0) + struct.pack("<HHI", 1, 1, 1) + b"leaving"


def stop(*_):
    for child in children:
        child.kill()
    for child in children:
        child.wait()
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
print("listening", flush=True)
while True:
    channel, _ = listener.accept()
    if len(kept) < leaving:
        channel.sendall(HELLO)
        channel.recv(1)  # of WELCOME
        channel.shutdown(socket.SHUT_RD)
        kept.append(channel)
        continue
    environ = dict(os.environ, MAITRED_CHANNEL=str(channel.fileno()))
    command = [sys.executable, "-m", "maitred", application]
    children.append(subprocess.Popen(command, env=environ, pass_fds=[channel.fileno()], start_new_session=True))
    channel.close()
