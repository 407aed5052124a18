"""A user with a browser, and an administrator of files."""

from kit import expect, step

_TICK = r"+/tick (\d+)/.exec(document.body.innerText)[1]"
_FILE_FIELDS = ("etag", "last-modified", "expires")


def _goes_on(browser):
    """What the page asks for by itself comes."""
    now = browser.value(_TICK)
    browser.until(f"{_TICK} > {now} + 3", "ticks")


@step
def page(user):
    """a page in Chromium: a field, clicks with a graph, a 10 MB upload, a download, what changes by itself, across a reload"""
    browser = user.browser()
    browser.open("/")
    browser.fill("#name", "Émile")
    browser.see("hello Émile")
    for number in (1, 2, 3):
        browser.click("#go")
        browser.see(f"clicked {number}")
    browser.upload("#upload input[type=file]", "a.bin", bytes(10_000_000))
    browser.see("a.bin 10000000")
    _goes_on(browser)
    user.reload()
    browser.fill("#name", "Anna")
    browser.see("hello Anna")
    browser.click("#go")
    browser.see("clicked 4")
    _goes_on(browser)
    browser.note(files=5)


@step
def scripts(user):
    """every script of the page, with and without gzip"""
    paths = sorted({path for path, status, _ in user.browser().responses() if status == 200 and "/_dash-component-suites/" in path})
    expect(len(paths) > 5, "hardly any scripts")
    for path in paths:
        user.see(path, user.get(path))
        user.see(f"{path}, gzip", user.get(path, {"Accept-Encoding": "gzip"}))


@step
def files(user):
    """Flask-Admin: pages, 20 MB up and down, ranges, what has no token"""
    user.mask(r"session=[^;]+", "session=(secret)")
    user.mask(r'value="[\w.-]{40,}"', "(token)")
    user.mask(r'"end_id":"[^"]+"', "(id)")
    user.mask(r"20\d\d-\d\d-\d\d[^<]*", "(date)")
    for path in ("/admin/", "/admin/fileadmin/", "/admin/fileadmin/upload/", "/admin/static/admin/js/helpers.js", "/admin/nothing"):
        user.see(path, user.get(path), without=(*_FILE_FIELDS, "content-length"))
    data = bytes(range(256)) * 80_000
    up = {"upload": ("b.bin", data, "application/octet-stream")}
    user.see("upload", user.post("/admin/fileadmin/upload/", files=up), without=("content-length",))
    user.see("list", user.get("/admin/fileadmin/"), without=("content-length",))
    for path in ("/admin/fileadmin/download/b.bin", "/admin/fileadmin/download/none.bin"):
        user.see(path, user.get(path), without=_FILE_FIELDS)
        user.see(f"{path}, range", user.get(path, {"Range": "bytes=5-9"}), without=_FILE_FIELDS)
