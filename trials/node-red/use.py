"""A user who makes flows by the HTTP API and in the editor, and the users of these flows."""

import hashlib
import json

from kit import step

_HELLO = 'msg.payload = {hello: msg.req.params.name, query: msg.req.query}; msg.headers = {"X-Trial": "yes"}; return msg;'
_UPLOADED = "msg.payload = msg.req.files.map(each => [each.originalname, each.size]); return msg;"


def _flows():
    """A greeting, an upload, a message for the editor, and a WebSocket that answers."""

    def node(kind, name, *to, **more):
        return {"id": name, "type": kind, "z": "tab", "name": name, "x": 200, "y": 100, "wires": [list(to)] if to else [], **more}

    return [
        {"id": "tab", "type": "tab", "label": "Trial", "disabled": False, "info": ""},
        node("http in", "hello", "greet", url="/hello/:name", method="get", upload=False),
        node("function", "greet", "answer", func=_HELLO, outputs=1, libs=[]),
        node("http in", "upload", "count", url="/upload", method="post", upload=True),
        node("function", "count", "answer", func=_UPLOADED, outputs=1, libs=[]),
        node("http in", "say", "answer", "debug", url="/say", method="post", upload=False, wires=[["answer", "debug"]]),
        node("debug", "debug", active=True, tosidebar=True, console=False, complete="payload", targetType="msg"),
        node("http response", "answer", statusCode="", headers={}),
        {"id": "listener", "type": "websocket-listener", "path": "/ws/echo", "wholemsg": "false"},
        node("websocket in", "heard", "told", server="listener", client=""),
        node("websocket out", "told", server="listener", client=""),
    ]


@step
def flows(user):
    """a flow deployed by the HTTP API; what its HTTP nodes answer, 10 MB upload"""
    user.mask(r'"rev":"\w+"', '"rev":"…"')
    user.see("deployed", user.post("/flows", {"Node-RED-Deployment-Type": "full"}, json=_flows()))
    user.until("the flow answers", lambda: user.get("/hello/anna").status == 200)
    user.see("hello", user.get("/hello/%C3%89mile?a=1&a=2"))
    user.see("conditional", user.get("/hello/anna", {"If-None-Match": user.get("/hello/anna").one("etag")}))
    data = bytes(range(256)) * 40_000
    user.see("upload", user.post("/upload", files={"f": ("a.bin", data, "application/octet-stream")}))
    user.see("text", user.post("/say", {"Content-Type": "text/plain"}, b"one"))
    user.see("wrong JSON", user.post("/say", {"Content-Type": "application/json"}, b"{"), body=False)
    user.see("nothing there", user.get("/nothing"))
    user.see("flows", user.get("/flows", {"Node-RED-API-Version": "v2"}), without=("etag",))


@step
def comms(user):
    """the editor's WebSocket and that of a flow, across a reload"""
    with user.websocket("/comms") as editor, user.websocket("/ws/echo") as socket:
        editor.send(json.dumps({"subscribe": "debug"}))
        for round_ in ("before", "after"):
            user.note("said", user.post("/say", {"Content-Type": "text/plain"}, round_.encode()).text)
            user.note(f"{round_} the reload", _debugged(editor))
            socket.send("é" * 100_000)
            user.note("echo", hashlib.sha256(socket.recv(30).encode()).hexdigest())
            if round_ == "before":
                user.reload()


def _debugged(editor):
    """The next message of a debug node."""
    while True:
        for told in json.loads(editor.recv(30)):
            if told.get("topic") == "debug":
                return told["data"]["msg"]


@step
def page(user):
    """the editor in Chromium: a flow is changed and deployed, messages show, the connection stays across a reload"""
    browser = user.browser()
    browser.open("/")
    browser.until("window.RED && RED.nodes && RED.nodes.node('greet') && RED.view.getActiveNodes", "the flow is shown")
    browser.until("!document.querySelector('#red-ui-loading-progress').checkVisibility()", "the editor")
    browser.value("RED.nodes.node('greet').func = \"msg.payload = 'changed'; return msg;\"")
    browser.value("RED.nodes.node('greet').changed = true; RED.nodes.dirty(true)")
    browser.click("#red-ui-header-button-deploy")
    browser.see("Successfully deployed")
    user.until("the new flow", lambda: user.get("/hello/anna").text == "changed")
    browser.value("RED.sidebar.show('debug')")
    for text in ("before the reload", "after the reload"):
        user.post("/say", {"Content-Type": "text/plain"}, text.encode())
        browser.see(text)
        if text.startswith("before"):
            user.reload()
    user.note("WebSockets that ended", browser.closed_sockets())
    browser.note(files=20)
