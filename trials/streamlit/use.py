"""A user with a browser."""

from kit import TEN_MB, expect, step


@step
def page(user):
    """a page in Chromium: a field, a counter, words as they come, a 10 MB upload"""
    browser = user.browser()
    browser.open("/")
    browser.see("hello nobody")
    browser.fill("input[type=text]", "Émile")
    browser.press("Enter", 13, "\r")
    browser.see("hello Émile")
    for number in (1, 2, 3):
        browser.click_text("count")
        browser.see(f"counted {number}")
    browser.click_text("stream")
    browser.see("word4")
    browser.upload("input[type=file]", "a.bin", TEN_MB)
    browser.see("10240000 bytes")
    user.note("WebSockets that ended", browser.closed_sockets())
    browser.note(files=5)


@step
def reload(user):
    """the same page across a reload: the visitor's state is kept"""
    browser = user.browser()
    user.reload()
    browser.click_text("count")
    browser.see("counted 4")
    user.note("WebSockets that ended", browser.closed_sockets())
    browser.note()


@step
def http(user):
    """health, files with conditions and ranges, what is not there"""
    user.mask(r"_streamlit_xsrf=[^;]+", "_streamlit_xsrf=…")
    user.see("health", user.get("/_stcore/health"))
    user.see("page", user.get("/"), without=("etag", "last-modified"))
    browser = user.browser()
    paths = sorted({path for path, status, _ in browser.responses() if path.startswith("/static/") and status == 200})
    expect(len(paths) > 3, f"{paths}")
    for path in paths[:6]:
        answer = user.see(path, user.get(path, {"Accept-Encoding": "gzip"}))
        if tag := answer.one("etag"):
            user.see(f"{path} not changed", user.get(path, {"If-None-Match": tag}))
        user.see(f"{path}, a part", user.get(path, {"Range": "bytes=0-99"}))
    user.see("nothing", user.get("/static/nothing.js"))
