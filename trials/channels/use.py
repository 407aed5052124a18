"""Members of a room."""

import json

import websockets

from kit import expect, step


@step
def login(user):
    """login with CSRF, https seen without a setting, redirects"""
    user.mask(r"(csrftoken|sessionid)=\w+", r"\1=(secret)")
    user.mask(r'"token": "\w+"', '"token": "(secret)"')
    user.mask(r"; Secure", "")
    user.mask(r'"secure": (true|false)', '"secure": (as it is)')
    home = user.see("without a login", user.get("/"), without=("content-length",))
    expect(home.json()["secure"] == user.base.startswith("https"), "Django does not see that it is https")
    expect(home.json()["url"] == user.base + "/x", f"another address: {home.text}")
    token = user.see("token", user.get("/enter")).json()["token"]
    words = {"user": "anna", "password": "secret"}
    user.see("no token", user.post("/enter", {"Referer": user.base + "/enter"}, form=words))
    fields = {"Referer": user.base + "/enter", "Origin": user.base, "X-CSRFToken": token}
    user.see("forged", user.post("/enter", {**fields, "Origin": "https://evil.test"}, form=words))
    user.see("wrong", user.post("/enter", fields, form={**words, "password": "x"}))
    user.see("right", user.post("/enter", fields, form=words))
    user.see("anna", user.get("/"), without=("content-length",))


def _fields(user):
    cookies = "; ".join(f"{name}={value}" for name, value in user.client.cookies().items())
    return {"Cookie": cookies, "Origin": user.base}


@step
def rooms(user):
    """WebSockets: groups, subprotocol, wrong origin, no login, close codes, 256 KB, across a reload"""
    fields = _fields(user)
    with user.websocket("/ws/one", additional_headers=fields, subprotocols=["room.v1"]) as one:
        user.note("subprotocol", one.subprotocol)
        with user.websocket("/ws/one", additional_headers=fields) as other:
            one.send(json.dumps({"text": "hello"}))
            user.note("both hear", (one.recv(30), other.recv(30)))
            user.reload()
            other.send(json.dumps({"text": "x" * 256_000}))
            user.note("256 KB", (len(one.recv(30)), len(other.recv(30))))
            user.note("from a view", user.get("/say/one?text=view").json())
            user.note("both hear the view", (one.recv(30), other.recv(30)))
            other.close(4001, "enough")
        user.note("one hears", one.recv(30))
    for name, headers in (("wrong origin", {**fields, "Origin": "https://evil.test"}), ("no login", {"Origin": user.base})):
        try:
            with user.websocket("/ws/one", additional_headers=headers):
                user.note(name, "was let in")
        except websockets.exceptions.InvalidStatus as refused:
            user.note(name, refused.response.status_code)
    try:
        with user.websocket("/ws/", additional_headers=fields):
            user.note("no such room", "was let in")
    except Exception as error:
        user.note("no such room", type(error).__name__)


@step
def slow(user):
    """a long response by a consumer, fed by a view, across a reload; 10 MB up"""
    with user.start("POST", "/slow", body=b"x" * 10_000_000) as stream:
        lines = stream.lines()
        user.note("length", next(lines))
        user.get("/say/slow?text=one")
        user.note("one", next(lines))
        user.reload()
        user.get("/say/slow?text=two")
        user.get("/say/slow?text=end")
        user.note("rest", list(lines))
        user.note("end", stream.end)
