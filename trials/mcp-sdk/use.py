"""The SDK's own client, by each way that a server of the SDK has: streamable HTTP with sessions, without, with JSON, and SSE."""

import asyncio
import contextlib

from mcp import Client, types
from mcp.client.sse import sse_client

from kit import expect, step


async def _elicit(*_):
    return types.ElicitResult(action="accept", content={"name": "Anna"})


async def _text(client, tool, arguments=None, **how):
    return (await client.call_tool(tool, arguments, **how)).content[0].text


async def _cancel(client, name):
    """A call that is cancelled ends at the server, too."""
    call = asyncio.create_task(client.call_tool("forever"))
    while name not in await _texts(client, "running"):
        await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    while name in await _texts(client, "running"):
        await asyncio.sleep(0)


async def _texts(client, tool):
    return [each.text for each in (await client.call_tool(tool)).content]


def _use(user, name, target, mode="legacy", asks=True, cancels=True):
    """What an assistant does, in one session."""
    heard = []

    async def progress(*told):
        heard.append(told)

    async def talk():
        async with Client(target, mode=mode, read_timeout_seconds=40, elicitation_callback=_elicit) as client:
            user.note("tools", [tool.name for tool in (await client.list_tools()).tools])
            user.note("add", await _text(client, "add", {"a": 1, "b": 2}))
            call = asyncio.create_task(_text(client, "count", {"to": 100}, progress_callback=progress))
            await asyncio.to_thread(user.reload)
            user.note("count, across a reload", await call)
            if asks:
                user.note("ask", await _text(client, "ask"))
            user.note("long", len((await client.read_resource("data://long")).contents[0].text))
            await asyncio.to_thread(user.reload)
            user.note("add, after another", await _text(client, "add", {"a": 3, "b": 4}))
            if cancels:
                await asyncio.wait_for(_cancel(client, name), 60)

    asyncio.run(talk())
    return heard


@step
def sessions(user):
    """streamable HTTP with sessions: tools, progress, a question to the user, 500 KB, a call that is cancelled, across two reloads"""
    heard = _use(user, "sessions", user.base + "/sessions/mcp")
    user.note("progress", heard)


@step
def discovery(user):
    """the same as revision 2026-07-28 of the protocol has it, without a handshake"""
    heard = _use(user, "sessions", user.base + "/sessions/mcp", mode="auto", asks=False)
    user.note("progress", heard)


@step
def stateless(user):
    """the same without sessions, where the server cannot ask or cancel"""
    heard = _use(user, "stateless", user.base + "/stateless/mcp", asks=False, cancels=False)
    user.note("progress", heard)


@step
def json(user):
    """the same with responses in JSON"""
    _use(user, "json", user.base + "/json/mcp", asks=False)


@step
def sse(user):
    """the same over the former transport, server-sent events beside POST"""
    heard = _use(user, "sse", sse_client(user.base + "/sse/sse"))
    user.note("progress", heard)


@step
def together(user):
    """twenty sessions at once"""

    async def one():
        async with Client(user.base + "/sessions/mcp", mode="legacy", read_timeout_seconds=40) as client:
            return await _text(client, "count", {"to": 10})

    async def all_of_them():
        return await asyncio.gather(*(one() for _ in range(20)))

    found = asyncio.run(all_of_them())
    expect(found == ["counted to 10"] * 20, str(found))
