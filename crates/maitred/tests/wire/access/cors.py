"""Pages of two origins that use responses of a third one, in a headless browser: one of them is allowed to.

    cors.py CHROMIUM ALLOWED_PAGE OTHER_PAGE API
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "status_page"))

from devtools import Browser  # noqa: E402  It lies beside another test.

# What a script of the page learns of a response: its status, its text, a field; or that it may not know anything.
ASK = """(async () => {
    try {
        const response = await fetch(%s, %s);
        return [response.status, await response.text(), response.headers.get('X-Shown'), response.headers.get('X-Hidden')];
    } catch (error) {
        return [error.name];
    }
})()"""

REFUSED = ["TypeError"]
ANN = "{headers: {Authorization: 'Basic ' + btoa('ann:secret')}}"


def main(chromium, allowed, other, api):
    failed = []

    def ask(browser, target, how, expected):
        found = browser.evaluate(ASK % (repr(api + target), how))
        if found != expected:
            failed.append(f"{target} {how}: {found}, and not {expected}")

    with Browser(chromium) as browser:
        browser.call("Page.navigate", url=allowed)
        browser.until("document.title === 'page'", "the page is there")
        ask(browser, "/api/x", "{}", [200, "GET -", "shown", None])
        ask(browser, "/api/x", "{method: 'POST', body: 'x'}", [200, "POST -", "shown", None])
        # These are asked about before (preflight).
        put = "{method: 'PUT', headers: {'Content-Type': 'application/json'}, body: '{}'}"
        ask(browser, "/api/x", put, [200, "PUT -", "shown", None])
        ask(browser, "/api/x", "{method: 'DELETE'}", REFUSED)
        ask(browser, "/api/x", "{headers: {'X-Other': '1'}}", REFUSED)
        ask(browser, "/api/x", "{credentials: 'include'}", [200, "GET -", "shown", None])
        # What the gates say can be read, too, and a preflight request needs no credentials.
        ask(browser, "/api/closed/x", "{}", [401, "401 Unauthorized\n", None, None])
        ask(browser, "/api/closed/x", ANN, [200, "GET ann", "shown", None])
        # A route that allows no other origin.
        ask(browser, "/own/x", "{}", REFUSED)
        browser.call("Page.navigate", url=other)
        browser.until(f"document.title === 'page' && location.href === {other!r}", "the other page is there")
        for how in ("{}", "{method: 'POST', body: 'x'}", put, ANN, "{credentials: 'include'}"):
            ask(browser, "/api/x", how, REFUSED)
        opaque = browser.evaluate(f"fetch({api + '/api/x'!r}, {{mode: 'no-cors'}}).then(found => found.type)")
        if opaque != "opaque":
            failed.append(f"without CORS: {opaque}")
    if failed:
        raise AssertionError("\n".join(failed))


main(*sys.argv[1:])
