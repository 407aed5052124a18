"""Somebody with a browser."""

import re

from kit import expect, step


@step
def page(user):
    """a page in Chromium: clicks, a field, a 10 MB upload"""
    browser = user.browser()
    browser.open("/")
    browser.see("mine 0")
    for number in (1, 2, 3):
        browser.click_text("COUNT")
        browser.see(f"mine {number}")
    browser.see("all 3")
    browser.fill(".name input", "Émile")
    browser.see("hello Émile")
    file = user.directory / "a.bin"
    file.write_bytes(bytes(range(256)) * 40_000)
    browser.choose("input[type=file]", file)
    browser.see("a.bin 10240000")
    user.note("text", browser.text())
    user.note("failures", browser.failures())
    expect(len(browser.responses()) > 5, "a page of hardly any files")


@step
def reload(user):
    """the same page across a reload: clicks go on, state is kept"""
    browser = user.browser()
    browser.until("window.socket && window.socket.connected", "the page is connected")
    browser.click_text("COUNT")
    browser.see("mine 4")
    user.reload()
    browser.until("window.socket.connected", "the page is connected")
    browser.click_text("COUNT")
    browser.see("mine 5")
    browser.see("all 5")
    user.note("failures", browser.failures())


@step
def assets(user):
    """every script and style sheet, compressed as alone"""
    page = user.get("/")
    paths = sorted(set(re.findall(r'(?:src|href)="(/_nicegui/[^"]+)"', page.text)))
    expect(len(paths) > 3, f"{paths}")
    for path in paths:
        user.see(path, user.get(path, {"Accept-Encoding": "gzip"}), without=("etag", "last-modified", "date"))
