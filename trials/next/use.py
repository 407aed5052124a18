"""Visitors with a browser, and programs."""

import re

from kit import expect, step

_DATA = bytes(range(256)) * 40_000
_NOT_SAME = ("etag", "last-modified")


@step
def pages(user):
    """pages made beforehand and on demand, a redirect, errors, scripts with gzip and conditions, a file"""
    page = user.see("page", user.get("/"))
    user.see("not changed", user.get("/", {"If-None-Match": page.one("etag")}))
    user.see("hello", user.get("/hello/%C3%89mile?a=1&a=2", {"Accept-Language": "de"}))
    user.see("redirect", user.get("/old"))
    user.see("nothing", user.get("/nothing"))
    user.see("not found by the page", user.get("/hello/nobody"))
    user.see("client-side", user.get("/hello/anna", {"RSC": "1"}), without=("etag",))
    user.see("file", user.get("/a.txt"), without=_NOT_SAME)
    user.see("a part of it", user.get("/a.txt", {"Range": "bytes=2-5"}), without=_NOT_SAME)
    paths = sorted(set(re.findall(r'(?:src|href)="(/_next/[^"]+\.(?:js|css))"', page.text)))
    expect(len(paths) > 2, f"{paths}")
    for path in paths:
        answer = user.see(path, user.get(path, {"Accept-Encoding": "gzip"}), without=_NOT_SAME)
        user.see(f"{path} not changed", user.get(path, {"If-None-Match": answer.one("etag")}), without=_NOT_SAME)


@step
def streams(user):
    """a page that comes in parts, server-sent events across a reload, gzip, too; 10 MB upload"""
    with user.start("GET", "/stream") as exchange:
        first = exchange.read()
        expect(b"after 400 ms" not in first, "the page has come at once")
        whole = exchange.whole()
        user.note("end", whole.end)
        expect("after 400 ms" in whole.text, "the last part has not come")
    user.reload()
    with user.start("GET", "/events?count=20") as exchange:
        user.see("head", exchange.head(), body=False)
        events = exchange.events()
        user.note("first", next(events))
        user.reload()
        user.note("others", list(events))
    user.see("upload", user.post("/upload", body=_DATA))
    user.see("in chunks", user.post("/upload", body=iter([_DATA[:1000], _DATA[1000:]])))
    user.see("another method", user.get("/upload"))


@step
def page(user):
    """a page in Chromium: a server action with a cookie, a link, across a reload"""
    browser = user.browser()
    browser.open("/")
    browser.see("ready")
    for number, name in enumerate(("Anna", "Émile"), 1):
        browser.fill("input[name=name]", name)
        browser.click("button")
        browser.see(f"hello {name}, {number}")
        user.reload()
    browser.click_text("otto")
    browser.see("hello otto")
    user.note("text", browser.text())
    browser.note(files=5)
