"""Tools, a resource and a prompt; one tool reports how far it is."""

import asyncio

from fastmcp import Context, FastMCP

mcp = FastMCP("Workshop")


@mcp.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@mcp.tool
async def count(to: int, context: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(to):
        await context.report_progress(number, to)
        await context.info(f"at {number}")
        await asyncio.sleep(0.02)
    return f"counted to {to}"


@mcp.tool
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


@mcp.resource("data://long")
def long() -> str:
    """A long text."""
    return "0123456789" * 20_000


@mcp.prompt
def ask(about: str) -> str:
    """Asks."""
    return f"What do you know about {about}?"


app = mcp.http_app()
