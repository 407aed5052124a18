"""Packages that people use, behind the real Maitred: what each of them asks of an adapter it gets."""

import asyncio
import fcntl
import importlib.util
import unittest

from tests.behind import Behind, needs_maitred, read_until

TRANSPORTS = ("direct", "relay")
HOP = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")


def needs(*modules):
    """Skips what needs a module that is not installed."""
    missing = [name for name in modules if not importlib.util.find_spec(name)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


# The answer that most people find when they ask how Flask sends events.
FLASK_EVENTS = """
from flask import Flask, Response
app = Flask(__name__)
@app.route("/events")
def events():
    def stream():
        for number in range(3):
            yield f"data: {number}\\n\\n"
    fields = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
    return Response(stream(), mimetype="text/event-stream", headers=fields)
"""

SSE_STARLETTE = """
import asyncio, os, pathlib
from fastapi import FastAPI
from sse_starlette import EventSourceResponse
from starlette.responses import StreamingResponse
app = FastAPI()

async def stream(silent):
    try:
        for number in range(3):
            yield {"data": str(number)}
        if silent:
            await asyncio.Event().wait()
    finally:
        if silent:
            pathlib.Path("ended").write_text("yes")

@app.get("/events")
async def events(silent: bool = False):
    return EventSourceResponse(stream(silent))

@app.get("/ticks")
async def ticks():
    async def beat():
        while True:
            yield {"data": str(os.getpid())}
            await asyncio.sleep(0.1)
    return EventSourceResponse(beat())

@app.get("/pid")
async def pid():
    return os.getpid()

@app.get("/plain")
async def plain():
    async def silent():
        try:
            yield b"begun"
            await asyncio.Event().wait()
        finally:
            pathlib.Path("ended").write_text("yes")
    return StreamingResponse(silent())
"""

SILENT = """
import fcntl, os, pathlib
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/pid":
        return [b"%d" % os.getpid()]
    return silent()
def silent():
    with open("app.py") as file:
        yield b"begun"
        # Until the test releases it.
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            while True:
                yield b"more"
        finally:
            pathlib.Path("ended").write_text("yes")
"""

MCP = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("sums")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
app = server.streamable_http_app()
"""

COMPRESSING = """
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
{}
app = Starlette(routes=[Mount("/", StaticFiles(directory="assets"))], middleware=[Middleware({}, minimum_size=500)])
"""

HINTS = """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
async def page(request):
    await request.send_early_hints("</style.css>; rel=preload; as=style")
    return PlainTextResponse("hinted")
app = Starlette(routes=[Route("/", page)])
"""

HINTS_WSGI = """
def app(environ, start_response):
    environ.get("wsgi.early_hints", lambda headers: None)([("Link", "</style.css>; rel=preload; as=style")])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hinted"]
"""

DENIAL = """
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import WebSocketRoute
async def refuse(websocket):
    await websocket.send_denial_response(JSONResponse({"why": "who are you"}, status_code=401))
app = Starlette(routes=[WebSocketRoute("/ws", refuse)])
"""


@needs_maitred
class Events(unittest.TestCase):
    def check(self, found):
        status, fields, body = found
        self.assertEqual((status, fields.get_content_type()), (200, "text/event-stream"))
        self.assertEqual([name for name in fields if name.lower() in HOP and fields[name] not in ("close", "chunked")], [])
        self.assertEqual([line for line in body.split() if line.isdigit()], [b"0", b"1", b"2"])

    @needs("flask", "gunicorn")
    def test_the_usual_lines_for_flask(self):
        for kind in ("wsgi", "gunicorn"):
            for transport in TRANSPORTS:
                with Behind(FLASK_EVENTS, kind, transport) as server:
                    self.check(server.get("/events"))

    @needs("fastapi", "sse_starlette", "uvicorn")
    def test_sse_starlette(self):
        for kind in ("asgi", "uvicorn"):
            for transport in TRANSPORTS:
                with Behind(SSE_STARLETTE, kind, transport) as server:
                    self.check(server.get("/events"))

    @needs("fastapi", "sse_starlette", "uvicorn")
    def test_a_stream_that_is_silent_hears_that_its_client_has_gone(self):
        for kind in ("asgi", "uvicorn"):
            for target, mark in (("/events?silent=1", b"data: 2"), ("/plain", b"begun")):
                with Behind(SSE_STARLETTE, kind) as server:
                    with server.open(target) as client:
                        read_until(client, mark)
                    server.until((server.path / "ended").exists)
                    self.assertEqual(server.get("/events")[0], 200)
                    self.assertNotIn("Traceback", server.log())


    @needs("fastapi", "sse_starlette", "uvicorn")
    def test_a_stream_that_is_silent_for_too_long_ends_alone(self):
        for kind in ("asgi", "uvicorn"):
            for transport in TRANSPORTS:
                with Behind(SSE_STARLETTE, kind, transport, 'workers = 1\nrequest_timeout = "1s"') as server:
                    # On a busy machine the first process may take longer to start than a request waits.
                    server.until(lambda: server.get("/pid")[0] == 200)
                    pid = server.get("/pid")[2]
                    with server.open("/ticks") as neighbour, server.open("/events?silent=1") as silent:
                        read_until(silent, b"data: 2")
                        # The client sees the end, and the application a cancellation.
                        while silent.recv(1000):
                            read_until(neighbour, b"data: " + pid)
                        server.until((server.path / "ended").exists)
                        read_until(neighbour, b"data: " + pid)
                        self.assertEqual(server.get("/pid")[2], pid, server.log())


@needs_maitred
class Threads(unittest.TestCase):
    def test_a_thread_that_is_silent_for_too_long_costs_only_its_request(self):
        pool = 'workers = 1\nrequest_timeout = "1s"'
        for transport in TRANSPORTS:
            with Behind(SILENT, "wsgi", transport, pool, ["--threads", "3"]) as server:
                # On a busy machine the first process may take longer to start than a request waits.
                server.until(lambda: server.get("/pid")[0] == 200)
                pid = server.get("/pid")[2]
                with open(server.path / "app.py") as held:
                    fcntl.flock(held, fcntl.LOCK_EX)
                    with server.open("/silent") as silent:
                        read_until(silent, b"begun")
                        while silent.recv(1000):
                            pass
                    self.assertEqual(server.get("/pid")[2], pid, server.log())
                # The next piece has nowhere to go, which ends it.
                server.until((server.path / "ended").exists)
                self.assertEqual(server.get("/pid")[2], pid, server.log())
                self.assertNotIn("Traceback", server.log())


@needs_maitred
@needs("mcp", "uvicorn")
class Mcp(unittest.TestCase):
    def test_the_official_client_calls_a_tool(self):
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async def use(url):
            async with streamable_http_client(url + "/mcp") as (read, write, *_), ClientSession(read, write) as client:
                # The way with a session, whose answers are events; newer clients ask without.
                await client.initialize()
                tools = await client.list_tools()
                result = await client.call_tool("add", {"a": 2, "b": 3})
                return [tool.name for tool in tools.tools], result.content[0].text

        for kind in ("asgi", "uvicorn"):
            for transport in TRANSPORTS:
                with Behind(MCP, kind, transport) as server:
                    self.assertEqual(asyncio.run(use(server.url)), (["add"], "5"), server.log())


@needs_maitred
class Compression(unittest.TestCase):
    SCRIPT = "let words = ['word', 'word'];\n" * 1000

    def check(self, imported, middleware, coding, **options):
        source = COMPRESSING.format(imported, middleware)
        assets = "import os\nos.makedirs('assets', exist_ok=True)\n"
        assets += f"open('assets/x.js', 'w').write({self.SCRIPT!r})\n"
        for kind in ("asgi", "uvicorn"):
            with Behind(assets + source, kind, **options) as server:
                status, fields, body = server.get("/x.js", Accept_Encoding=coding)
                self.assertEqual((status, fields["Content-Encoding"]), (200, coding), server.log())
                self.assertIn("Accept-Encoding", fields["Vary"])
                self.assertLess(len(body), len(self.SCRIPT) // 10)
                self.assertEqual(server.get("/x.js")[2].decode(), self.SCRIPT)

    @needs("starlette", "uvicorn")
    def test_gzip_of_starlette(self):
        self.check("from starlette.middleware.gzip import GZipMiddleware", "GZipMiddleware", "gzip")

    @needs("brotli_asgi", "uvicorn")
    def test_brotli(self):
        self.check("from brotli_asgi import BrotliMiddleware", "BrotliMiddleware", "br")


@needs_maitred
class Hints(unittest.TestCase):
    def check(self, source, kind):
        for transport in TRANSPORTS:
            for value, count in (("always", 1), ("never", 0), ("http2", 0)):
                with Behind(source, kind, transport, f'workers = 1\nearly_hints = "{value}"') as server:
                    with server.open("/") as client:
                        seen = read_until(client, b"hinted")
                    self.assertEqual(seen.count(b"HTTP/1.1 103 "), count, seen)
                    self.assertEqual(seen.lower().count(b"link: </style.css>; rel=preload; as=style\r\n"), count, seen)
                    self.assertEqual(seen.count(b"HTTP/1.1 200 "), 1, seen)

    @needs("starlette")
    def test_starlette(self):
        self.check(HINTS, "asgi")

    def test_wsgi(self):
        self.check(HINTS_WSGI, "wsgi")

    @needs("gunicorn")
    def test_gunicorn(self):
        self.check(HINTS_WSGI, "gunicorn")


@needs_maitred
class Denial(unittest.TestCase):
    @needs("starlette")
    def test_a_websocket_is_refused_by_a_response(self):
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: c2FtcGxlIG5vbmNlIQ==")
        for transport in TRANSPORTS:
            with Behind(DENIAL, "asgi", transport) as server:
                with server.open("/ws", *upgrade) as client:
                    seen = read_until(client, b"who are you")
                self.assertTrue(seen.startswith(b"HTTP/1.1 401 "), seen)
                self.assertIn(b"application/json", seen)


if __name__ == "__main__":
    unittest.main()
