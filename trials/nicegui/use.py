"""A user with a browser."""

import re

from kit import TEN_MB, expect, step


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
    browser.upload("input[type=file]", "a.bin", TEN_MB)
    browser.see("a.bin 10240000")
    user.note("text", browser.text())
    browser.note(files=5)


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
    browser.note()


@step
def assets(user):
    """every script and style sheet, compressed as alone"""
    page = user.get("/")
    paths = sorted(set(re.findall(r'(?:src|href)="(/_nicegui/[^"]+)"', page.text)))
    expect(len(paths) > 3, f"{paths}")
    for path in paths:
        user.see(path, user.get(path, {"Accept-Encoding": "gzip"}), without=("etag", "last-modified", "date"))
