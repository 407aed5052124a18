"""A user with a browser, and a program that calls what the page offers."""

from kit import TEN_MB, step

GREETING = "document.querySelector('#greeting textarea').value"


@step
def page(user):
    """a page in Chromium: a form, a stream of results, a 10 MB upload"""
    browser = user.browser()
    browser.open("/")
    browser.fill("#name textarea", "Émile")
    browser.click("#greet")
    browser.until(f"{GREETING} === 'hello Émile'", "the greeting")
    browser.click("#count")
    browser.until(f"{GREETING} === 'counted 5'", "the last result")
    browser.upload("#file input[type=file]", "a.bin", TEN_MB)
    browser.until(f"{GREETING}.startsWith('10240000 ')", "the length of the file")
    user.note("length", browser.value(GREETING))
    browser.note(files=20)


@step
def reload(user):
    """the same page across a reload"""
    browser = user.browser()
    user.reload()
    browser.fill("#name textarea", "Anna")
    browser.click("#greet")
    browser.until(f"{GREETING} === 'hello Anna'", "the greeting after the reload")
    browser.note()


@step
def api(user):
    """calls by HTTP with server-sent events, assets with br and gzip"""
    user.mask(r"[0-9a-f]{32}", "(id)")
    told = user.post("/gradio_api/call/count", json={"data": ["x"]}).json()["event_id"]
    with user.start("GET", f"/gradio_api/call/count/{told}") as stream:
        user.see("head", stream.head(), body=False)
        user.note("events", list(stream.events()))
    browser = user.browser()
    paths = sorted({path for path, status, _ in browser.responses() if path.startswith("/assets/") and status == 200})
    for path in paths[:12]:
        for encoding in ("br", "gzip", "identity"):
            user.see(f"{path}, {encoding}", user.get(path, {"Accept-Encoding": encoding}), without=("last-modified", "etag"))
