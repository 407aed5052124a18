"""A user with a notebook: files, a kernel, a terminal, the page."""

import base64
import json

import websockets

from kit import expect, step

_TOKEN = {"Authorization": "token secret"}
_TIMES = ("etag", "last-modified", "content-length")
_PAPER = "[...window.jupyterapp.shell.widgets('main')].find(each => each.content?.activeCell)"


def _mask(user):
    user.mask(r"_xsrf=[^;\"]+", "_xsrf=(secret)")
    user.mask(r"username-[^=]*=[^;]+", "username=(signed)")
    user.mask(r"[0-9a-f]{8}-[0-9a-f-]{27}", "(id)")
    user.mask(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "(time)")


@step
def pages(user):
    """who has a token, and who has none; redirects to the login, static files, errors"""
    _mask(user)
    for path in ("/", "/lab", "/tree", "/api", "/login", "/api/contents", "/api/kernelspecs", "/nothing", "/static/favicons/favicon.ico"):
        user.see(path, user.get(path), body=path not in ("/lab", "/login"), without=_TIMES)
    user.see("token", user.get("/api/kernelspecs?token=secret"), without=_TIMES, body=False)


@step
def files(user):
    """a file of 15 MB up and down, ranges, directories, names with accents, deletion"""
    _mask(user)
    data = base64.b64encode(bytes(range(256)) * 60_000).decode()
    put = {"type": "file", "format": "base64", "content": data}
    user.note("put", user.request("PUT", "/api/contents/big.bin", _TOKEN, json=put).status)
    user.see("file", user.get("/files/big.bin", _TOKEN), without=_TIMES)
    user.see("range", user.get("/files/big.bin", {**_TOKEN, "Range": "bytes=3-8"}), without=_TIMES)
    user.note("directory", user.request("PUT", "/api/contents/d", _TOKEN, json={"type": "directory"}).status)
    small = {"type": "file", "format": "text", "content": "x"}
    user.note("name", user.request("PUT", "/api/contents/d/%C3%A9%20x.txt", _TOKEN, json=small).status)
    user.see("content", user.get("/api/contents/d/%C3%A9%20x.txt", _TOKEN), without=_TIMES)
    user.see("the same with %2F", user.get("/api/contents/d%2F%C3%A9%20x.txt", _TOKEN), without=_TIMES)
    user.see("deleted", user.request("DELETE", "/api/contents/big.bin", _TOKEN))


class _Kernel:
    """A kernel, by the WebSocket that the page uses."""

    def __init__(self, socket):
        self._socket = socket

    def run(self, code):
        """How it ended, and what it has written."""
        header = {"msg_id": code, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "content": content}
        self._socket.send(json.dumps(message))
        text, status, idle = "", None, False
        while status is None or not idle:
            said = json.loads(self._socket.recv(60))
            if said["parent_header"].get("msg_id") != code:
                continue
            kind, content = said["msg_type"], said["content"]
            text += content["text"] if kind == "stream" else ""
            status = content["status"] if kind == "execute_reply" else status
            idle = idle or kind == "status" and content["execution_state"] == "idle"
        return status, text


@step
def kernel(user):
    """a kernel by WebSocket: output, 900 KB of it, errors, across a reload; interrupted and deleted"""
    number = user.post("/api/kernels", _TOKEN, json={"name": "python3"}).json()["id"]
    path, fields = f"/api/kernels/{number}/channels?token=secret", {"Origin": user.base}
    with user.websocket(path, additional_headers=fields, max_size=None) as socket:
        there = _Kernel(socket)
        user.note("result", there.run("print(6 * 7)"))
        status, text = there.run("print('x' * 900_000)")
        user.note("much", (status, len(text)))
        user.reload()
        user.note("after the reload", there.run("for number in range(100): print(number, flush=True)"))
        user.note("error", there.run("1 / 0")[0])
    user.note("interrupt", user.post(f"/api/kernels/{number}/interrupt", _TOKEN).status)
    user.note("delete", user.request("DELETE", f"/api/kernels/{number}", _TOKEN).status)


def _calculate(socket, text, result):
    socket.send(json.dumps(["stdin", f"echo $(({text}))x\r"]))
    found = ""
    while result not in found:
        kind, *rest = json.loads(socket.recv(30))
        found += rest[0] if kind == "stdout" else ""


@step
def terminal(user):
    """a terminal by WebSocket across a reload; a page of another site may not"""
    name = user.post("/api/terminals", _TOKEN).json()["name"]
    path = f"/terminals/websocket/{name}?token=secret"
    with user.websocket(path, additional_headers={"Origin": user.base}) as socket:
        _calculate(socket, "6*7", "42x")
        user.reload()
        _calculate(socket, "7*7", "49x")
    try:
        with user.websocket(path, additional_headers={"Origin": "https://evil.test"}):
            user.note("another origin", "was let in")
    except websockets.exceptions.InvalidStatus as refused:
        user.note("another origin", refused.response.status_code)


@step
def notebook(user):
    """a notebook in Chromium, which goes on across a reload"""
    browser = user.browser()
    browser.open("/lab?token=secret")
    browser.click(".jp-LauncherCard[data-category=Notebook]")
    ready = f"{_PAPER}?.context.isReady && {_PAPER}.sessionContext.session?.kernel?.status === 'idle'"
    browser.until(f"{ready} && !!{_PAPER}.content.activeCell", "a notebook with an idle kernel")
    for number, text in enumerate(("print('result', 6 * 7)", "print('again', 7 * 7)")):
        if number:
            user.reload()
        browser.value(f"{_PAPER}.content.activeCell.model.sharedModel.setSource({json.dumps(text)})")
        browser.value(f"window.jupyterapp.shell.activateById({_PAPER}.id)")
        browser.value("window.jupyterapp.commands.execute('notebook:run-cell').then(() => true)")
        browser.see(("result 42", "again 49")[number])
    # A workspace that was never saved is asked for; a connection to a kernel that the page has changed its mind about is closed.
    usual = ("workspaces", "closed before the connection is established")
    wrong = [each for each in browser.failures() if not any(text in each for text in usual)]
    expect(not wrong, str(wrong))
