"""gunicorn's worker class whose requests come from Maitred.

    gunicorn -k maitred.gunicorn.HandoffWorker -b unix:/run/app.sock app:app    the arbiter runs; Maitred connects to the socket
    python3 -m maitred.gunicorn app:app                                         no arbiter: the command of a [pool.NAME]

The first form, started by Maitred as the command of a pool, becomes the second: Maitred is the arbiter then.
"""

import functools
import os
import select
import signal
import sys
import threading
import traceback
from time import monotonic

from gunicorn import util
from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn.errors import AppImportError, ConfigError
from gunicorn.http.wsgi import WSGIErrorsWrapper
from gunicorn.workers.base import Worker

from . import log
from .__main__ import CHANNEL_VARIABLE, StartError, interface_of, keep_many_descriptors, open_channel, open_recovery
from .environ import EnvironBuilder
from .frames import MAY_DETACH, ProtocolError
from .gunicorn_hooks import Observer
from .recovery import PATIENCE_S
from .sockets import GUNICORN, LEAVE_S, Sockets
from .threads import Server, answering
from .wsgi import Channel, answer

# gunicorn's own exit statuses: the arbiter ends when it sees them (gunicorn.arbiter.Arbiter).
_BOOT_ERROR, _LOAD_ERROR = 3, 4


class _WatchedChannel(Channel):
    """A channel that calls its worker's housekeeping each time before it may have to wait."""

    def __init__(self, sock, worker, name):
        super().__init__(sock, 1, name, worker.recovery)
        self._worker = worker

    def _wait(self):
        self._worker.wait_for(self._sock, self)

    def _await_recovery(self, recovery):
        self._worker.wait_for(recovery.socket, self, PATIENCE_S)


class HandoffWorker(Worker):
    """A worker of gunicorn. Under gunicorn's arbiter each thread (`threads`, default 1) serves one channel, which is one worker to
    Maitred; in a pool of Maitred's all threads share one channel."""

    # The channel that Maitred passed to this process; None if channels are accepted.
    channel_socket = None
    # Where another one comes from.
    recovery = None

    @classmethod
    def setup(cls):
        """Called by gunicorn before it binds anything: Maitred's pool needs no arbiter between itself and the workers."""
        if CHANNEL_VARIABLE in os.environ and not _Runner.running:
            os.execv(sys.executable, [sys.executable, "-m", "maitred.gunicorn", *sys.argv[1:]])

    @classmethod
    def check_config(cls, cfg, logger):
        """Called by the arbiter: what is bound has to be something that Maitred can connect to."""
        if any(not isinstance(address, str) for address in cfg.address):
            logger.error(
                "HandoffWorker speaks Maitred's handoff protocol, not HTTP: bind = 'unix:/path', and in Maitred "
                "connect = 'unix:/path'. Bound is %s",
                ", ".join(map(str, cfg.address)),
            )
            sys.exit(1)

    def run(self):
        """Serves until the worker is asked to stop. Raises ProtocolError, about the channel of a pool."""
        if interface_of(self.wsgi) == "asgi":
            raise ConfigError("the application speaks ASGI, not WSGI: python3 -m maitred.uvicorn runs it behind Maitred")
        keep_many_descriptors()
        self._observer = Observer(self)
        self._channels = set()
        self._sockets = Sockets(GUNICORN)
        log.use(functools.partial(self.log.exception, "Error handling request %s"), self.log)
        more = {"wsgi.errors": WSGIErrorsWrapper(self.cfg), "wsgi.multithread": self.cfg.threads > 1}
        self._builder = EnvironBuilder(more)
        self._build = self._builder.build
        self._name = f"gunicorn {'.'.join(map(str, sys.version_info[:2]))} wsgi"
        if self.channel_socket is not None and self.cfg.threads > 1:
            self._serve_in_threads(self.channel_socket, self.cfg.threads)
        elif self.channel_socket is not None:
            self._serve(self.channel_socket)
        elif self.cfg.threads > 1:
            self._accept_for_threads(self.cfg.threads)
        else:
            self._accept_one_by_one()
        self.notify()
        self._sockets.leave(min(LEAVE_S, self.cfg.graceful_timeout))

    def notify(self):
        """Tells the arbiter, if there is one, that this worker lives."""
        if self.channel_socket is None:
            super().notify()

    def wait_for(self, sock, channel, patience_s=None):
        """Until `sock` is readable, or for so long: keeps the arbiter from ending this worker, and looks whether it is to stop."""
        deadline = None if patience_s is None else monotonic() + patience_s
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        if threading.current_thread() is threading.main_thread():
            poll.register(self.PIPE[0], select.POLLIN)
        while True:
            self._look_after()
            if not self.alive:
                channel.stop_receiving()
                return
            wait_ms = self._interval_ms() if deadline is None else max(0.0, deadline - monotonic()) * 1000
            if any(number == sock.fileno() for number, _ in poll.poll(wait_ms)):
                return
            if deadline is not None and monotonic() >= deadline:
                return
            self._drain_pipe()

    def _interval_ms(self):
        """How long a wait may last, None for ever: there is no arbiter that this worker reports to."""
        if self.channel_socket is not None:
            return None
        # `self.timeout` is half of gunicorn's `timeout`, and 0 if the arbiter waits for ever.
        return int((self.timeout or 1.0) * 1000 / 2) or 1

    def _look_after(self):
        self.notify()
        if self.channel_socket is None and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False

    def _drain_pipe(self):
        try:
            while os.read(self.PIPE[0], 4096):
                pass
        except BlockingIOError:
            pass

    def _serve(self, sock):
        """One channel, to its end."""
        answer_one = self._observer.wrap or answer
        channel = _WatchedChannel(sock, self, self._name)
        self._channels.add(channel)
        try:
            channel.hello()
            # Hooks see all requests, and so does what counts them.
            watched = self._observer.wrap is not None or self.cfg.max_requests
            for entry in channel.requests() if watched else channel.unusual(self.wsgi, self._builder):
                self._count(channel)
                self.notify()
                if entry[2] & MAY_DETACH:
                    self._sockets.answer(answer_one, channel, self.wsgi, self._build, entry)
                else:
                    answer_one(channel, self.wsgi, self._build, entry)
        except ProtocolError as error:
            if self.channel_socket is not None:
                raise
            # Maitred's failure on this channel is no reason to take the others along.
            self.log.error("A channel is closed, Maitred broke the handoff protocol: %s", error)
        finally:
            self._channels.discard(channel)
            channel.close()

    def _count(self, channel):
        """Another request begins; after so many of them the worker ends."""
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False
            channel.stop_receiving()

    def _serve_in_threads(self, sock, threads):
        """One channel of a pool, to its end, and those that follow it: the requests of all threads come over it."""
        run = answering(self._sockets, self._observer.wrap or answer, self.wsgi, self._build)

        def counted(session, entry):
            self._count(server)
            run(session, entry)

        server = Server(sock, threads, self._name, counted, self.recovery)
        server.serve(
            lambda waited: self.wait_for(waited, server),
            lambda recovery: self.wait_for(recovery.socket, server, PATIENCE_S),
        )

    def _accept(self, timeout_ms):
        """A channel that Maitred has opened; None if there was none."""
        poll = select.poll()
        poll.register(self.PIPE[0], select.POLLIN)
        for listener in self.sockets:
            listener.setblocking(False)
            poll.register(listener, select.POLLIN)
        ready = {number for number, _ in poll.poll(timeout_ms)}
        self._drain_pipe()
        if not self.alive:
            # Another worker takes it: this one would end it at once.
            return None
        for listener in self.sockets:
            if listener.fileno() in ready:
                try:
                    sock, _ = listener.accept()
                except BlockingIOError:  # Another worker was faster.
                    continue
                sock.set_inheritable(False)
                return sock
        return None

    def _accept_one_by_one(self):
        while self.alive:
            self._look_after()
            sock = self._accept(self._interval_ms())
            if sock is not None:
                self._serve(sock)

    def _accept_for_threads(self, threads_max):
        running = set()

        def serve(sock):
            self._serve(sock)
            running.discard(threading.current_thread())
            os.write(self.PIPE[1], b"1")

        while self.alive:
            self._look_after()
            if len(running) >= threads_max:
                select.select([self.PIPE[0]], [], [], self._interval_ms() / 1000)
                self._drain_pipe()
                continue
            sock = self._accept(self._interval_ms())
            if sock is not None:
                thread = threading.Thread(target=serve, args=(sock,), daemon=True)
                running.add(thread)
                thread.start()
        for channel in list(self._channels):
            channel.stop_receiving()
        for thread in list(running):
            self.notify()
            thread.join(self.cfg.graceful_timeout)

    def handle_quit(self, sig, frame):
        """SIGQUIT and SIGINT: at once. Under Maitred's pool SIGINT is Ctrl-C for all, and Maitred decides."""
        if sig == signal.SIGINT and self.channel_socket is not None:
            return
        super().handle_quit(sig, frame)


class _Runner(WSGIApplication):
    """One worker without an arbiter; in hooks it stands for the arbiter."""

    # Whether this process is one already.
    running = False

    def run(self):
        """What gunicorn's arbiter does for a worker, in the order of its spawn_worker. Returns the exit status."""
        cfg = self.cfg
        if cfg.pythonpath:
            sys.path[:0] = [os.path.abspath(path) for path in cfg.pythonpath.split(",")]
        self.log = cfg.logger_class(cfg)
        self.address, self.num_workers, self.timeout = [], 1, cfg.timeout
        self.pid = os.getpid()
        self.LISTENERS, self.WORKERS = [], {}
        self._warn()
        try:
            channel_socket, recovery = open_channel(), open_recovery()
        except StartError as error:
            self.log.error("%s", error)
            return 1
        if cfg.preload_app:
            self.wsgi()
        cfg.on_starting(self)
        cfg.when_ready(self)
        # Maitred watches over the time that requests take.
        worker = HandoffWorker(1, os.getppid(), [], self, 0, cfg, self.log)
        worker.channel_socket, worker.recovery = channel_socket, recovery
        worker.pid = self.pid
        self.WORKERS[self.pid] = worker
        cfg.pre_fork(self, worker)
        cfg.post_fork(self, worker)
        util._setproctitle(f"maitred worker [{cfg.proc_name}]")
        try:
            worker.init_process()
        finally:
            self._leave(worker)
        return 0

    def _leave(self, worker):
        try:
            worker.tmp.close()
            self.cfg.worker_exit(self, worker)
            self.cfg.child_exit(self, worker)
            self.cfg.on_exit(self)
        except Exception:
            self.log.warning("Exception during worker exit:\n%s", traceback.format_exc())

    def _warn(self):
        cfg = self.cfg
        if cfg.workers > 1:
            self.log.warning("workers is Maitred's here: set it in its [pool.NAME]")
        if cfg.settings["bind"].get() != cfg.settings["bind"].default:
            self.log.warning("bind is ignored: requests come from Maitred's pool")


def main():
    """`python3 -m maitred.gunicorn`: gunicorn's own options. Returns the exit status."""
    _Runner.running = True
    try:
        return _Runner("%(prog)s [OPTIONS] [APP_MODULE]", prog="python3 -m maitred.gunicorn").run()
    except AppImportError as error:
        sys.stderr.write(f"{error}\n")
        return _LOAD_ERROR
    except ProtocolError as error:
        sys.stderr.write(f"maitred: protocol error: {error}\n")
        return 1
    except Exception:
        traceback.print_exc()
        return _BOOT_ERROR


if __name__ == "__main__":
    # Imported under its own name: gunicorn finds the same classes then.
    from maitred.gunicorn import main as _main

    sys.exit(_main())
