"""A headless Chromium that speaks HTTP/3 to the site, from the first byte on.

    chromium.py [--no-websocket] CHROMIUM URL RESOURCES CERTIFICATE

CERTIFICATE is the site's. A WebSocket goes over TCP there, because this browser has none over HTTP/3.
"""

import argparse
import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "wire" / "status_page"))

from devtools import Browser  # noqa: E402  It lies beside another test.

from page import visit  # noqa: E402
from table import check  # noqa: E402


class Chromium(Browser):
    def go(self, url):
        self.events.clear()
        self.call("Network.clearBrowserCache")
        self.call("Page.navigate", url=url)


def key_hash(certificate):
    """SHA-256 of the public key, as the browser wants it."""
    pem = subprocess.run(["openssl", "x509", "-in", certificate, "-noout", "-pubkey"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], check=True, capture_output=True, input=pem).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-websocket", action="store_true")
    parser.add_argument("chromium")
    parser.add_argument("url")
    parser.add_argument("resources", type=int)
    parser.add_argument("certificate")
    given = parser.parse_args()
    more = [
        # It would try ::1 first, and nothing but that by QUIC.
        "--host-resolver-rules=MAP localhost 127.0.0.1",
        f"--origin-to-force-quic-on={urlsplit(given.url).netloc}",
        f"--ignore-certificate-errors-spki-list={key_hash(given.certificate)}",
    ]
    with Chromium(given.chromium, more) as browser:
        visit(browser, given.url, given.resources, not given.no_websocket)
        check(not browser.complaints(), f"the console says {browser.complaints()}")


main()
