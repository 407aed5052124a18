"""A server that runs already: it accepts channels on the Unix socket SOCKET, and gives each to a process of its own that runs
the application APPLICATION. It says "listening" when it does. SIGTERM ends it and all its processes at once."""

import os
import signal
import socket
import subprocess
import sys

path, application = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path + ".new")
listener.listen(64)
os.rename(path + ".new", path)
children = []


def stop(*_):
    for child in children:
        child.kill()
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
print("listening", flush=True)
while True:
    channel, _ = listener.accept()
    environ = dict(os.environ, MAITRED_CHANNEL=str(channel.fileno()))
    command = [sys.executable, "-m", "maitred", application]
    children.append(subprocess.Popen(command, env=environ, pass_fds=[channel.fileno()], start_new_session=True))
    channel.close()
