"""``python3 -m maitred.uvicorn app:app``: uvicorn's options, lifespan, event loop and logging; requests come from Maitred.

It is the command of a [pool.NAME]; each process that Maitred starts is one worker.
"""

import functools
import inspect
import logging
import random
import signal
import sys

from click import ClickException
from click.core import ParameterSource
from uvicorn import __version__ as uvicorn_version
from uvicorn.config import LOGGING_CONFIG, STARTUP_FAILURE, Config
from uvicorn.main import main as uvicorn_command

from . import asgi, log
from .__main__ import StartError, keep_many_descriptors, open_channel, open_recovery
from .asgi_websocket import Limits
from .frames import CAPACITY_MAX, ProtocolError
from .lifespan import StartupFailed

_CAPACITY = 100
# Options of uvicorn that have no meaning here, and whose business each is.
_IGNORED = {
    "Maitred listens for clients": ("host", "port", "uds", "fd", "backlog", "http", "http2", "timeout_keep_alive"),
    "Maitred speaks TLS": (
        "ssl_keyfile", "ssl_certfile", "ssl_keyfile_password", "ssl_version", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ciphers",
    ),  # fmt: skip
    "set workers in Maitred's [pool.NAME]": ("workers", "timeout_worker_healthcheck"),
    "maitred reload replaces the processes": ("reload", "reload_dirs", "reload_includes", "reload_excludes", "reload_delay"),
    "set trusted_proxies in Maitred": ("proxy_headers", "forwarded_allow_ips"),
    "Maitred has limits of its own": ("h11_max_incomplete_event_size",),
    "WebSockets have no extensions here": ("ws_per_message_deflate",),
    "responses always have a Date": ("date_header",),
}
_logger = logging.getLogger("uvicorn.error")
_access = logging.getLogger("uvicorn.access")


def _parse(arguments):
    """uvicorn's own command line: its parameters, and the names of those that were given. Raises ClickException."""
    with uvicorn_command.make_context("python3 -m maitred.uvicorn", list(arguments)) as context:
        given = {
            name
            for name in context.params
            if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
        }
        return context.params, given


def _config(parameters, given):
    """uvicorn's Config, without what is Maitred's."""
    ignored = {name for names in _IGNORED.values() for name in names}
    known = inspect.signature(Config.__init__).parameters
    wanted = {name: value for name, value in parameters.items() if name in known and name not in ignored}
    wanted["headers"] = [tuple(header.split(":", 1)) for header in parameters.get("headers") or ()]
    wanted["log_config"] = parameters.get("log_config") or LOGGING_CONFIG
    # Maitred has the clients' addresses in its access log already.
    wanted["access_log"] = "access_log" in given and parameters["access_log"]
    # What Maitred says of the client is true as it is.
    config = Config(**wanted, proxy_headers=False, workers=1)
    for reason, names in _IGNORED.items():
        for name in names:
            if name in given:
                _logger.warning("--%s is ignored: %s.", name.replace("_", "-"), reason)
    return config


class _Lifespan:
    """uvicorn's Lifespan (on, off or auto) with the names of maitred.lifespan."""

    def __init__(self, config):
        self._lifespan = config.lifespan_class(config)

    async def startup(self):
        await self._lifespan.startup()
        if self._lifespan.should_exit:
            raise StartupFailed("see above")
        return self._lifespan.state

    async def shutdown(self):
        await self._lifespan.shutdown()


def _scope_changer(config):
    """What uvicorn's scope has that Maitred's has not; None if there is nothing."""
    root_path = config.root_path

    def change(scope):
        scope["asgi"] = {**scope["asgi"], "version": config.asgi_version}
        if root_path and not scope["root_path"]:
            # As behind a proxy that takes the prefix away: the application sees it again.
            scope["root_path"] = root_path
            scope["path"] = root_path + scope["path"]
            scope["raw_path"] = root_path.encode("latin-1", "replace") + scope["raw_path"]

    return change if root_path or config.asgi_version != "3.0" else None


def _log_access(scope, status):
    target = scope["raw_path"].decode("latin-1")
    if scope["query_string"]:
        target += "?" + scope["query_string"].decode("latin-1")
    client = "{}:{}".format(*scope["client"]) if scope["client"] else ""
    if scope["type"] == "websocket":
        _logger.info('%s - "WebSocket %s" %s', client, target, "[accepted]" if status == 101 else status)
    else:
        _access.info('%s - "%s %s HTTP/%s" %d', client, scope["method"], target, scope["http_version"], status)


def _options(config):
    requests_max = config.limit_max_requests
    if requests_max is not None:
        requests_max += random.randint(0, getattr(config, "limit_max_requests_jitter", 0))
    return asgi.Options(
        lifespan=functools.partial(_Lifespan, config),
        change_scope=_scope_changer(config),
        on_response=_log_access if config.access_log else None,
        headers=tuple(config.encoded_headers),
        requests_max=requests_max,
        finish_s=config.timeout_graceful_shutdown,
        websocket=Limits(
            # Which library uvicorn would use for them does not matter here, nor whether there is one.
            enabled=config.ws != "none" and config.interface != "wsgi",
            message_bytes_max=config.ws_max_size,
            messages_max=config.ws_max_queue,
            ping_s=config.ws_ping_interval,
            pong_s=config.ws_ping_timeout,
        ),
    )


def run(config, sock, recovery=None):
    """Serves what uvicorn's `config` describes until the channel `sock` ends, and those that follow it. Raises ProtocolError and StartupFailed."""
    keep_many_descriptors()
    if not config.loaded:
        config.load()
    log.use(lambda line: _logger.exception("Exception in ASGI application at %s", line), _logger)
    capacity = min(config.limit_concurrency or _CAPACITY, CAPACITY_MAX)
    name = f"uvicorn {uvicorn_version} python {sys.version_info[0]}.{sys.version_info[1]}"
    worker = asgi.Worker(config.loaded_app, _options(config))
    asgi.run(worker.main(sock, capacity, name, recovery), config.get_loop_factory())


def main(arguments=None):
    """Exit status: 0 after an orderly end, 1 and 3 after a failure, 2 for wrong usage."""
    try:
        parameters, given = _parse(sys.argv[1:] if arguments is None else arguments)
        # It comes first: without it, there is no use in importing the application.
        sock, recovery = open_channel(), open_recovery()
    except ClickException as error:
        error.show()
        return 2
    except StartError as error:
        sys.stderr.write(f"maitred: {error}\n")
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parameters.get("app_dir") is not None:
        sys.path.insert(0, parameters["app_dir"])
    try:
        run(_config(parameters, given), sock, recovery)
    except StartupFailed as error:
        _logger.error("Application startup failed: %s", error)
        return STARTUP_FAILURE
    except ProtocolError as error:
        sys.stderr.write(f"maitred: protocol error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
