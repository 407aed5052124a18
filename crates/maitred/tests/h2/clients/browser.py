"""A page of many resources in a headless browser: all of them come, by HTTP/2, and no error is reported.

    browser.py CHROMIUM URL RESOURCES
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "wire" / "status_page"))

from devtools import Browser  # noqa: E402  It lies beside another test.


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def main(chromium, url, resources):
    half = int(resources) // 2
    with Browser(chromium) as browser:
        # The certificate is the test's own.
        browser.call("Security.setIgnoreCertificateErrors", ignore=True)
        for round in ("first", "second"):
            browser.events.clear()
            browser.call("Network.clearBrowserCache")
            browser.call("Page.navigate", url=url)
            browser.until(f"document.readyState === 'complete' && window.count === {half}", "all scripts ran")
            pictures = "[...document.images].filter(image => image.complete && image.naturalWidth === 10).length"
            browser.until(f"{pictures} === {half}", "all pictures are there")
            came = [event["params"] for event in browser.events if event.get("method") == "Network.responseReceived"]
            came = [event["response"] for event in came if event["response"]["url"].startswith("https:")]
            check(len(came) == 1 + 2 * half, f"{round} visit: {len(came)} responses")
            versions = {response["protocol"] for response in came}
            check(versions == {"h2"}, f"{round} visit: it came by {versions}")
            check({response["status"] for response in came} == {200}, [response["status"] for response in came])
            check(not browser.complaints(), f"the console says {browser.complaints()}")


main(*sys.argv[1:])
