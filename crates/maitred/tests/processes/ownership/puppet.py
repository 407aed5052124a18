# An application process that is the test's puppet: it passes its channel on, and stays until it is asked to go.
import os
import signal
import socket

channel = int(os.environ["MAITRED_CHANNEL"])
test = socket.socket(socket.AF_UNIX)
test.connect("puppets.sock")
socket.send_fds(test, [os.environ["MAITRED_POOL"].encode()], [channel])
os.close(channel)
if test.recv(1) == b"k":
    os.kill(os.getpid(), signal.SIGKILL)
