"""What applications make of the user that their server has found out."""

import json
import os
import secrets
import signal
from http.cookies import SimpleCookie

NAMES = ("REMOTE_USER", "AUTH_TYPE", "HTTP_REMOTE_USER", "HTTP_X_REMOTE_USER", "HTTP_X_AUTHENTIK_USERNAME")
sessions = {}
logins = []


def application(environ, start_response):
    page = PAGES[environ["PATH_INFO"].rsplit("/", 1)[-1]]
    return page(environ, start_response)


def reply(start_response, text, status="200 OK", fields=()):
    body = text.encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), *fields])
    return [body]


def cookie(environ, name):
    found = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(name)
    return found.value if found else None


def told(environ, start_response):
    """What is there, as JSON; the bytes of a variable are its characters (PEP 3333)."""
    found = {name: environ[name].encode("latin-1").decode(errors="replace") for name in NAMES if name in environ}
    return reply(start_response, json.dumps(found))


def note(environ, start_response):
    """Adds a line to the file `noted`."""
    with open("noted", "a") as file:
        file.write(f"{environ.get('REMOTE_USER')} {environ.get('AUTH_TYPE')}\n")
    return reply(start_response, "")


def die_once(environ, start_response):
    """The first process that gets the request ends; the next one says what it was told."""
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return told(environ, start_response)


def trac_login(environ, start_response):
    """As trac.web.auth.LoginModule: the server asks for a password at `/login` alone, and a cookie remembers its user."""
    user = environ.get("REMOTE_USER")
    if not user:
        return reply(start_response, "Authentication information not available.", "500 Internal Server Error")
    token = secrets.token_hex(16)
    sessions[token] = user
    fields = [("Set-Cookie", f"trac_auth={token}"), ("Location", "/trac/wiki")]
    return reply(start_response, "", "303 See Other", fields)


def trac_wiki(environ, start_response):
    return reply(start_response, environ.get("REMOTE_USER") or sessions.get(cookie(environ, "trac_auth"), "anonymous"))


def django(environ, start_response):
    """As django.contrib.auth.middleware.RemoteUserMiddleware.process_request, and a view that says `request.user`."""
    session = sessions.setdefault(cookie(environ, "sessionid"), {})
    try:
        username = environ["REMOTE_USER"]
    except KeyError:
        # self._remove_invalid_user(request)
        session.clear()
        return reply(start_response, f"AnonymousUser {len(logins)}")
    if session.get("user") != username:
        session.clear()
        session["user"] = username
        logins.append(username)
    return reply(start_response, f"{session['user']} {len(logins)}")


PAGES = {
    "told": told,
    "note": note,
    "die-once": die_once,
    "login": trac_login,
    "wiki": trac_wiki,
    "django": django,
}
