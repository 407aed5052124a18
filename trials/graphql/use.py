"""Queries, and subscriptions by server-sent events and by WebSocket, whose members speak to each other."""

import json
from contextlib import ExitStack

from kit import expect, step

_EVENTS = {"Accept": "text/event-stream", "Content-Type": "application/json"}


def _say(user, room, text):
    query = "mutation ($room: String!, $text: String!) { say(room: $room, text: $text) }"
    said = user.post("/yoga", json={"query": query, "variables": {"room": room, "text": text}})
    return said.json()["data"]["say"]


def _subscribe(user, room):
    """A listener that is subscribed from now on: the response, and its events."""
    query = json.dumps({"query": f'subscription {{ said(room: "{room}") }}'}).encode()
    exchange = user.start("POST", "/yoga", _EVENTS, query).head()
    events = exchange.events()
    first = next(events)
    while first[0][0] == "":
        first = next(events)
    user.note("first", first)
    return exchange, events


@step
def queries(user):
    """queries, mutations and errors of Apollo and Yoga, with gzip; 20 MB up; what is refused to other origins"""
    for path in ("/apollo", "/yoga"):
        for query in ("{ greeting(times: 1) }", "{ greeting(times: 20000) }", "{ nothing }", "{", 'mutation { length(text: "") }'):
            user.see(f"{path} {query}", user.post(path, json={"query": query}))
        user.see(f"{path} gzip", user.post(path, {"Accept-Encoding": "gzip"}, json={"query": "{ greeting(times: 2) }"}))
        user.see(f"{path} by GET", user.get(f"{path}?query=%7Bgreeting(times:2)%7D", {"Apollo-Require-Preflight": "1"}))
        user.see(f"{path} simple GET", user.get(f"{path}?query=%7Bgreeting(times:2)%7D"))
        elsewhere = {"Origin": "http://x.test", "Access-Control-Request-Method": "POST"}
        user.see(f"{path} preflight", user.request("OPTIONS", path, elsewhere))
    text = {"query": "mutation ($text: String!) { length(text: $text) }", "variables": {"text": "x" * 20_000_000}}
    user.see("20 MB", user.post("/apollo", json=text))


@step
def events(user):
    """subscriptions by server-sent events, one after another, beside each other, across a reload; a listener who goes"""
    for number in range(3):
        # The next one comes on the connection on which a response has said `Connection: keep-alive`.
        exchange, heard = _subscribe(user, f"room {number}")
        _say(user, f"room {number}", f"number {number}")
        user.note("heard", next(heard))
        _say(user, f"room {number}", "bye")
        user.note("the end", list(heard))
        user.see("after it", user.post("/yoga", json={"query": "{ greeting(times: 1) }"}))
        exchange.close()
    with ExitStack() as stack:
        listeners = [_subscribe(user.another(), "all") for _ in range(3)]
        for exchange, _ in listeners:
            stack.enter_context(exchange)
        user.reload()
        user.note("who hears", _say(user, "all", "after the reload"))
        user.note("heard", [next(heard) for _, heard in listeners])
        listeners[0][0].close()
        left = {"query": '{ listeners(room: "all") }'}
        user.until("two listeners", lambda: user.post("/yoga", json=left).json()["data"]["listeners"] == 2)
        _say(user, "all", "bye")
        user.note("the end", [list(heard) for _, heard in listeners[1:]])


@step
def last_requests(user):
    """subscriptions by clients that close their connections"""
    for number in range(4):
        other = user.another()
        query = json.dumps({"query": 'subscription { said(room: "short") }'}).encode()
        with other.start("POST", "/yoga", {**_EVENTS, "Connection": "close"}, query) as exchange:
            exchange.head()
            expect(exchange.status == 200, f"client {number} got {exchange.status}")
            heard = exchange.events()
            next(heard)
            _say(user, "short", "bye")
            user.note("the end", list(heard))


@step
def sockets(user):
    """graphql-ws: a subscription across a reload, what is no message, another subprotocol"""
    with user.websocket("/graphql", subprotocols=["graphql-transport-ws"]) as socket:
        user.note("subprotocol", socket.subprotocol)
        socket.send(json.dumps({"type": "connection_init"}))
        user.note("acknowledged", socket.recv(30))
        payload = {"query": 'subscription { said(room: "socket") }'}
        socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": payload}))
        user.note("joined", socket.recv(30))
        user.reload()
        _say(user, "socket", "x" * 100_000)
        user.note("heard", socket.recv(30))
        _say(user, "socket", "bye")
        user.note("complete", socket.recv(30))
        socket.send("no message")
        try:
            socket.recv(30)
        except Exception as error:
            user.note("closed", str(error))


@step
def trpc(user):
    """tRPC with its own client: batches that stream, subscriptions by server-sent events and by WebSocket, across a reload"""
    member = user.setup["build"] + "/member.js"
    user.note("by HTTP", user.run("node", member, user.base, "http"))
    user.note("by WebSocket", user.run("node", member, user.base, "ws"))
    user.reload()
    user.note("by HTTP again", user.run("node", member, user.base, "http"))
    user.see("a query", user.get("/trpc/greet?input=%22x%22"))
    user.see("no procedure", user.get("/trpc/none"))
