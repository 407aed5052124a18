"""Users of a language model, with the client of OpenAI's."""

import ssl
import time

import openai
from kit import expect, step

# `request_timeout` of /impatient in app.toml.
_SILENCE_S = 2


def _client(user, key="trial-key", retries=0, below=""):
    """It trusts the certificate of the server, and speaks HTTP/1.1."""
    trusted = ssl.create_default_context(cafile=str(user.authority))
    http = openai.DefaultHttpxClient(verify=trusted, timeout=40, trust_env=False)
    return openai.OpenAI(base_url=f"{user.base}{below}/v1", api_key=key, max_retries=retries, http_client=http)


def _ask(client, name, model="parrot", **how):
    messages = [{"role": "user", "content": "say é"}]
    return client.chat.completions.create(model=model, messages=messages, user=name, **how)


def _tell(user, name, word=""):
    told = user.post(f"/tell/{name}", body=word.encode())
    expect(told.status == 200, f"{told.status} {told.text}")


def _word(stream):
    return next(stream).choices[0].delta.content


@step
def answers(user):
    """models, an answer at once, one of 2 MB; no such model, no key, as the client reports them"""
    client = _client(user)
    user.note("models", [model.id for model in client.models.list()])
    user.note("answer", _ask(client, "whole").choices[0].message.content)
    long = [{"role": "user", "content": "é" * 1_000_000}]
    found = client.chat.completions.create(model="parrot", messages=long, user="long")
    expect(found.choices[0].message.content == "é" * 1_000_000, "another answer")
    for model, key, kind in (("none", "trial-key", openai.NotFoundError), ("parrot", "wrong", openai.AuthenticationError)):
        try:
            _ask(_client(user, key), "error", model)
            expect(False, "it was not refused")
        except kind as error:
            user.note(f"{model}, {key}", [error.status_code, error.code, error.body])
    user.see("by HTTP", user.post("/v1/chat/completions", json={"model": "parrot"}))
    client.close()


@step
def tokens(user):
    """tokens that come one by one, each before the next one is there, across a reload; the same by HTTP"""
    client = _client(user)
    stream = _ask(client, "tokens", stream=True)
    for number, word in enumerate(("Hello", " ", "é", "\n\n", "data: x", "日本", "🦜")):
        # The model says a word only when the last one has been read.
        _tell(user, "tokens", word)
        expect(_word(stream) == word, f"not {word!r}")
        if number == 3:
            user.reload()
    _tell(user, "tokens")
    user.note("the end", [next(stream).choices[0].finish_reason, next(stream, None)])
    client.close()
    fields, other = {"Authorization": "Bearer trial-key"}, user.another()
    words = {"model": "parrot", "messages": [], "user": "by-http", "stream": True}
    with other.start("POST", "/v1/chat/completions", fields, json=words) as exchange:
        # Over HTTP/2 all of this user's requests share one connection.
        exchange.sent()
        _tell(other, "by-http", "one")
        user.see("head", exchange.head(), body=False)
        events = exchange.events()
        user.note("one", next(events))
        for word in ("two", "three"):
            _tell(other, "by-http", word)
            user.note(word, next(events))
        _tell(other, "by-http")
        user.note("the rest", list(events))
        user.note("how it ends", exchange.end)
    other.close()


@step
def cancelled(user):
    """clients that cancel, in the middle and before the first token: the model stops"""
    client = _client(user)
    stream = _ask(client, "cancelled", stream=True)
    _tell(user, "cancelled", "one")
    expect(_word(stream) == "one", "not one")
    stream.close()
    user.until("the end of the model", lambda: "cancelled cancelled" in user.get("/ended").json()["ended"])
    other = user.another()
    words = {"model": "parrot", "messages": [], "user": "early", "stream": True}
    with other.start("POST", "/v1/chat/completions", {"Authorization": "Bearer trial-key"}, json=words) as exchange:
        exchange.sent()
        user.until("the model's thoughts", lambda: "early" in user.get("/ended").json()["going"])
    user.until("the end of the model", lambda: "early cancelled" in user.get("/ended").json()["ended"])
    other.close()
    client.close()
    user.note("ended", user.get("/ended").json()["ended"])


@step
def busy(user):
    """429 with Retry-After: the client waits for as long, and retries; without retries it reports it"""
    words = {"model": "busy", "user": "http"}
    user.see("busy", user.post("/v1/chat/completions", {"Authorization": "Bearer trial-key"}, json=words))
    client = _client(user, retries=4)
    began = time.monotonic()
    user.note("answer", _ask(client, "busy", "busy").choices[0].message.content)
    expect(time.monotonic() - began >= 2, "it has not waited for as long as Retry-After says")
    user.note("asked", user.get("/ended").json()["asked"]["busy"])
    try:
        _ask(_client(user), "refused", "busy")
        expect(False, "it was not refused")
    except openai.RateLimitError as error:
        user.note("refused", [error.status_code, error.response.headers["retry-after"], error.body])
    client.close()


@step
def together(user):
    """thirty streams at once, whose words come in turns, across a reload"""
    client = _client(user)
    names = [f"one-of-{number}" for number in range(30)]
    streams = {name: _ask(client, name, stream=True) for name in names}
    for turn in range(3):
        for name in names if turn % 2 else reversed(names):
            _tell(user, name, f"{name} {turn}")
            expect(_word(streams[name]) == f"{name} {turn}", "another word")
        if turn == 0:
            user.reload()
    for name in names:
        _tell(user, name)
    user.note("the end", [[chunk.choices[0].finish_reason for chunk in streams[name]] for name in names])
    client.close()


@step
def silence(user):
    """a model that thinks for longer than an application may be silent, while the application sends comments"""
    client = _client(user, below="/impatient")
    stream = _ask(client, "thinking", stream=True)
    began = time.monotonic()
    while time.monotonic() < began + 2 * _SILENCE_S:
        _tell(user, "thinking", ":thinking")
    _tell(user, "thinking", "42")
    expect(_word(stream) == "42", "another word")
    _tell(user, "thinking")
    user.note("the end", [chunk.choices[0].finish_reason for chunk in stream])
    client.close()
