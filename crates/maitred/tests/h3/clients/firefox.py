"""A headless Firefox that speaks HTTP/3 to the site, from the first byte on. Its QUIC is neqo, in Rust.

    firefox.py [--no-websocket] FIREFOX URL RESOURCES CA
"""

import argparse
from urllib.parse import urlsplit

from marionette import Firefox
from page import visit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-websocket", action="store_true")
    parser.add_argument("firefox")
    parser.add_argument("url")
    parser.add_argument("resources", type=int)
    parser.add_argument("ca")
    given = parser.parse_args()
    url = urlsplit(given.url)
    preferences = {
        "network.http.http3.enable": True,
        # As if an earlier response had said so.
        "network.http.http3.alt-svc-mapping-for-testing": f"{url.hostname};h3=:{url.port}",
        "network.http.http3.force-use-alt-svc-mapping-for-testing": True,
        # Otherwise a CA of one's own means that something between reads TLS, and that is over TCP.
        "network.http.http3.disable_when_third_party_roots_found": False,
        # The server is on 127.0.0.1 only.
        "network.dns.disableIPv6": True,
    }
    with Firefox(given.firefox, preferences, given.ca) as browser:
        visit(browser, given.url, given.resources, not given.no_websocket)


main()
