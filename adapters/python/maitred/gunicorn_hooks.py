"""gunicorn's hooks around a request, and its access log, where they are in use."""

import datetime

from .wsgi import answer


class Request:
    """What hooks and log formats of gunicorn may ask about a request."""

    def __init__(self, environ):
        self.method = environ["REQUEST_METHOD"]
        self.path = environ["PATH_INFO"]
        self.query = environ["QUERY_STRING"]
        self.uri = environ["RAW_URI"]
        self.scheme = environ["wsgi.url_scheme"]
        self.version = tuple(map(int, environ["SERVER_PROTOCOL"].partition("/")[2].split(".")))
        self.headers = [
            (key[5:].replace("_", "-"), value) for key, value in environ.items() if key.startswith("HTTP_")
        ]
        self.body = environ["wsgi.input"]


class Reply:
    """What hooks and log formats of gunicorn may ask about a response."""

    def __init__(self):
        self.status = "500 Internal Server Error"
        self.headers = []
        self.sent = 0


class Observer:
    """Calls the hooks of a worker. `wrap` is used in place of wsgi.answer, or None if there are no hooks."""

    def __init__(self, worker):
        self._worker = worker
        self._cfg = worker.cfg
        settings = worker.cfg.settings
        hooked = any(settings[name].get() is not settings[name].default for name in ("pre_request", "post_request"))
        self.wrap = self._answer if hooked or _logs_access(worker) else None

    def _answer(self, channel, application, build, entry, offer=None):
        began = datetime.datetime.now()
        seen = []

        def observed(environ, start_response):
            reply = Reply()

            def started(status, headers, exc_info=None):
                reply.status, reply.headers = status, headers
                return start_response(status, headers, exc_info)

            seen[:] = request, environ, reply = Request(environ), environ, reply
            self._cfg.pre_request(self._worker, request)
            return application(environ, started)

        response = answer(channel, observed, build, entry, offer)
        if not seen:
            return
        request, environ, reply = seen
        reply.sent = response.body_bytes
        if response.status == 500:
            reply.status = "500 Internal Server Error"
        self._worker.log.access(reply, request, environ, datetime.datetime.now() - began)
        try:
            self._cfg.post_request(self._worker, request, environ, reply)
        except Exception:
            self._worker.log.exception("Exception in post_request hook")


def _logs_access(worker):
    cfg = worker.cfg
    return bool(cfg.accesslog or cfg.logconfig or cfg.logconfig_dict or getattr(cfg, "logconfig_json", None) or cfg.syslog)
