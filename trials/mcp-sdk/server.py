"""Four ways to serve the same tools: streamable HTTP with sessions, without, with JSON instead of streams, and SSE."""

import asyncio
import contextlib

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Mount

RUNNING = []


class Answer(BaseModel):
    """What a user is asked for."""

    name: str


def make(name):
    """A server with its tools."""
    server = MCPServer(name)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @server.tool()
    async def count(to: int, context: Context) -> str:
        """Counts, and says how far it is."""
        for number in range(to):
            await context.report_progress(number, to, f"at {number}")
            await asyncio.sleep(0.02)
        return f"counted to {to}"

    @server.tool()
    async def ask(context: Context) -> str:
        """Asks the user."""
        found = await context.elicit("What is your name?", Answer)
        return f"hello {found.data.name}" if found.action == "accept" else found.action

    @server.tool()
    async def forever() -> str:
        """Until it is cancelled."""
        RUNNING.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            RUNNING.remove(name)
        return "never"

    @server.tool()
    def running() -> list[str]:
        """Whose calls of `forever` go on."""
        return RUNNING

    @server.resource("data://long")
    def long() -> str:
        """A long text."""
        return "0123456789" * 50_000

    return server


sessions, stateless, plain, sse = make("sessions"), make("stateless"), make("json"), make("sse")
apps = {
    "sessions": sessions.streamable_http_app(),
    "stateless": stateless.streamable_http_app(stateless_http=True),
    "json": plain.streamable_http_app(json_response=True),
}


@contextlib.asynccontextmanager
async def lifespan(_):
    """Each has a session manager."""
    async with contextlib.AsyncExitStack() as stack:
        for server in (sessions, stateless, plain):
            await stack.enter_async_context(server.session_manager.run())
        yield


app = Starlette(routes=[*(Mount(f"/{name}", each) for name, each in apps.items()), Mount("/sse", sse.sse_app())], lifespan=lifespan)
