"""What an assistant does with an MCP server, by FastMCP's own client over streamable HTTP."""

import asyncio

from fastmcp import Client

from kit import expect, step


def _session(user, talk):
    """One session of the client: `talk` gets it."""
    heard = {"progress": [], "log": []}

    async def progress(done, total, _):
        heard["progress"].append((done, total))

    async def log(message):
        heard["log"].append(str(message.data))

    async def run():
        async with Client(user.base + "/mcp", progress_handler=progress, log_handler=log, timeout=40) as client:
            await talk(client)

    asyncio.run(run())
    return heard


@step
def initialize(user):
    """initialize, list of tools, resources and prompts"""

    async def talk(client):
        user.note("server", client.server_info.name)
        user.note("tools", [(tool.name, tool.description) for tool in await client.list_tools()])
        user.note("resources", [str(each.uri) for each in await client.list_resources()])
        user.note("prompts", [each.name for each in await client.list_prompts()])

    _session(user, talk)


@step
def calls(user):
    """tool calls, errors, a long resource, a prompt"""

    async def talk(client):
        user.note("add", (await client.call_tool("add", {"a": 2, "b": 40})).data)
        user.note("wrong arguments", (await client.call_tool("add", {"a": "x"}, raise_on_error=False)).is_error)
        user.note("fails", (await client.call_tool("fail", raise_on_error=False)).content[0].text)
        user.note("resource", len((await client.read_resource("data://long"))[0].text))
        user.note("prompt", (await client.get_prompt("ask", {"about": "queues"})).messages[0].content.text)

    _session(user, talk)


@step
def streaming(user):
    """progress and log messages of a tool that streams, across a reload; five sessions at once"""

    async def talk(client):
        call = asyncio.create_task(client.call_tool("count", {"to": 100}))
        await asyncio.to_thread(user.reload)
        user.note("counted", (await call).data)
        user.note("and after that", (await client.call_tool("add", {"a": 1, "b": 1})).data)

    heard = _session(user, talk)
    user.note("progress", heard["progress"])
    user.note("log", heard["log"])

    async def another():
        async with Client(user.base + "/mcp", timeout=40) as client:
            return (await client.call_tool("count", {"to": 10})).data

    async def together():
        return await asyncio.gather(*(another() for _ in range(5)))

    user.note("together", asyncio.run(together()))


@step
def raw(user):
    """the same by HTTP: session ids, server-sent events, DELETE, errors"""
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    user.mask(r"\b[0-9a-f]{32}\b", "(id)")
    user.mask(r"id: [0-9a-f-]+", "id: (id)")
    first = user.post("/mcp", accept, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    user.see("initialize", first)
    session = first.one("mcp-session-id")
    expect(session, "no session")
    more = {**accept, "Mcp-Session-Id": session}
    user.see("initialized", user.post("/mcp", more, json={"jsonrpc": "2.0", "method": "notifications/initialized"}))
    user.see("list", user.post("/mcp", more, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
    user.see("no session", user.post("/mcp", accept, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
    user.see("not acceptable", user.post("/mcp", {"Accept": "text/html"}, json={}))
    with user.start("GET", "/mcp", more) as stream:
        user.see("stream from the server", stream.head(), body=False)
    user.see("end", user.request("DELETE", "/mcp", more))
