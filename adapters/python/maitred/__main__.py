"""``python3 -m maitred module:callable``: one worker process, started by Maitred; ``python3 -m maitred run``: Maitred itself."""

import argparse
import gc
import inspect
import os
import resource
import signal
import socket
import sys

from . import __version__, server
from .application import StartError, load, takes
from .frames import CAPACITY_MAX, ProtocolError
from .lifespan import StartupFailed
from .recovery import Recovery

CHANNEL_VARIABLE = "MAITRED_CHANNEL"
RECOVERY_VARIABLE = "MAITRED_RECOVERY"
# Requests at a time, unless the command line says otherwise.
_CAPACITIES = {"wsgi": 1, "asgi": 100, "rsgi": 100}


def _capacity(text):
    number = int(text)
    if not 1 <= number <= CAPACITY_MAX:
        raise argparse.ArgumentTypeError(f"not between 1 and {CAPACITY_MAX}: {text}")
    return number


def _arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python3 -m maitred",
        description="Runs a WSGI, ASGI or RSGI application as a worker process of Maitred. Maitred starts it, with the command of "
        "a [pool.NAME] in its configuration.",
        epilog="SIGTERM: finish what was received, then exit. SIGINT is ignored: Ctrl-C is for Maitred to act on. Outside of a "
        f"pool, the server's own commands become the server: {', '.join(server.COMMANDS)}; its help: python3 -m maitred help.",
    )
    parser.add_argument(
        "application",
        metavar="module:callable",
        help="the application, or 'module:factory()', which makes it; without ':callable' it is 'application' or 'app'",
    )
    parser.add_argument(
        "--capacity",
        type=_capacity,
        metavar="N",
        help="how many requests to ask for at a time (default: 1 for WSGI, 100 for ASGI and RSGI). With WSGI they are answered "
        "one after another, so that more than 1 only pays for requests that are all short",
    )
    parser.add_argument(
        "--threads",
        type=_capacity,
        metavar="N",
        help="answer so many requests of a WSGI application at the same time (default: 1), as applications want that keep state in "
        "one process, and requests waiting (long polling)",
    )
    parser.add_argument(
        "--interface",
        choices=("auto", "wsgi", "asgi", "rsgi"),
        default="auto",
        help="what the application speaks; auto: RSGI if it has __rsgi__; if it is a coroutine function, or "
        "its __call__ is, ASGI, or RSGI where it takes two arguments; else WSGI (default: auto)",
    )
    parser.add_argument(
        "--loop",
        choices=("auto", "asyncio", "uvloop"),
        help="the event loop of an ASGI or RSGI application (default: auto: uvloop if it is installed, else asyncio)",
    )
    parser.add_argument("--version", action="version", version=f"maitred (Python adapter) {__version__}")
    return parser.parse_args(arguments)


def open_channel():
    """The socket that Maitred passed. Raises StartError."""
    sock = _passed_socket(CHANNEL_VARIABLE)
    if sock is None:
        raise StartError(
            f"{CHANNEL_VARIABLE} is not set: this program is started by Maitred, from the command of a [pool.NAME]."
        )
    sock.setblocking(True)
    return sock


def open_recovery():
    """Where other channels come from; None if Maitred has passed no socket for that. Raises StartError."""
    sock = _passed_socket(RECOVERY_VARIABLE)
    return None if sock is None else Recovery(sock)


def _passed_socket(variable):
    number = os.environ.pop(variable, None)
    if number is None:
        return None
    try:
        sock = socket.socket(fileno=int(number))
        # Programs that the application starts must not hold it open.
        sock.set_inheritable(False)
    except (ValueError, OSError) as error:
        raise StartError(f"{variable}={number} is not an open socket: {error}") from error
    return sock


def keep_many_descriptors():
    """Raises the soft limit of open files: one descriptor is kept per client connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def interface_of(application):
    """"rsgi" for what has __rsgi__, "asgi" for a coroutine function and for an object whose __call__ is one ("rsgi" where that
    takes two arguments and not the three of ASGI), else "wsgi"."""
    if hasattr(application, "__rsgi__"):
        return "rsgi"
    call = getattr(application, "__call__", None)
    if not any(map(inspect.iscoroutinefunction, (application, call))):
        return "wsgi"
    return "rsgi" if takes(application, 2) and not takes(application, 3) else "asgi"


def run(arguments):
    """Serves until the channel ends. Raises StartError, StartupFailed and ProtocolError."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock, recovery = open_channel(), open_recovery()
    keep_many_descriptors()
    directory = os.getcwd()
    if directory not in sys.path[:1]:
        sys.path.insert(0, directory)
    application = load(arguments.application)
    interface = interface_of(application) if arguments.interface == "auto" else arguments.interface
    capacity = arguments.capacity or _CAPACITIES[interface]
    name = f"python {sys.version_info[0]}.{sys.version_info[1]} {interface}"
    threads = arguments.threads or 1
    if threads > 1:
        if interface != "wsgi" or arguments.capacity:
            raise StartError("--threads is for WSGI, and the number of requests at a time; --capacity would be another one.")
        _serve_threads(sock, application, threads, name, recovery)
        return
    if interface == "wsgi":
        if arguments.loop:
            raise StartError("--loop is for ASGI and RSGI: a WSGI application has no event loop.")
        _serve_wsgi(sock, application, capacity, name, recovery)
        return
    serve = {"asgi": _serve_asgi, "rsgi": _serve_rsgi}[interface]
    serve(sock, application, capacity, name, recovery, _factory(arguments.loop or "auto"))


def _freeze():
    """What was imported stays; the collector need not look at it again."""
    gc.collect()
    gc.freeze()


def _serve_wsgi(sock, application, capacity, name, recovery):
    from .wsgi import Channel, serve

    channel = Channel(sock, capacity, name, recovery)
    signal.signal(signal.SIGTERM, lambda number, frame: channel.stop_receiving())
    _freeze()
    try:
        serve(channel, application)
    finally:
        channel.close()


def _serve_threads(sock, application, threads, name, recovery):
    from .threads import serve

    def ends_by_signal(server):
        signal.signal(signal.SIGTERM, lambda number, frame: server.stop_receiving())

    _freeze()
    serve(sock, application, threads, name, recovery, ends_by_signal)


def _factory(loop):
    from .asgi import loop_factory

    try:
        return loop_factory(loop)
    except ImportError as error:
        raise StartError(f"--loop {loop}: {error}") from error


def _serve_asgi(sock, application, capacity, name, recovery, factory):
    from .asgi import serve

    _freeze()
    serve(sock, application, capacity, name, recovery, factory)


def _serve_rsgi(sock, application, capacity, name, recovery, factory):
    # Only now, when the application has imported what it uses.
    from .rsgi import serve

    _freeze()
    serve(sock, application, capacity, name, recovery, factory)


def main(arguments=None):
    """Exit status: 0 after an orderly end, 1 after a failure, 2 for wrong usage."""
    options = _arguments(arguments)
    try:
        run(options)
    except StartError as error:
        sys.stderr.write(f"maitred: {error}\n")
        return 1
    except StartupFailed as error:
        sys.stderr.write(f"maitred: startup of the application failed: {error}\n")
        return 1
    except ProtocolError as error:
        sys.stderr.write(f"maitred: protocol error: {error}\n")
        return 1
    return 0


def command(arguments):
    """`python3 -m maitred`: the server, if the arguments are its own, or a worker. Exit status as that of `main`."""
    started_by_server = CHANNEL_VARIABLE in os.environ
    try:
        if server.wanted(arguments, started_by_server):
            server.take_over(arguments)
        if arguments[:1] and arguments[0] in server.VERSION_OPTIONS and not started_by_server:
            try:
                server.take_over(arguments)
            except server.NoServer:
                arguments = ["--version"]
    except server.NoServer as error:
        sys.stderr.write(f"maitred: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"maitred: {server.find()} cannot be started: {error}. Is it built for this machine?\n")
        return 1
    return main(arguments)


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
