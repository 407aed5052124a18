"""niquests, which speaks HTTP/3 by qh3 (a QUIC of its own, in Rust and Python), as a client.

    niquests_client.py --ca FILE ORIGIN

ORIGIN is where cargo xtask http3 serves its site. Exit status: 0 if all was as it has to be.
"""

import argparse
import hashlib
import os
from urllib.parse import urlsplit

import niquests

LARGE_BYTES = 20_000_000
UPLOAD_BYTES = 10_000_000
AT_ONCE = 20
# How niquests calls HTTP/3.
HTTP_3 = 30


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def session(ca, **more):
    made = niquests.Session(**more)
    # Otherwise a bundle that the environment names would come before the one given.
    made.trust_env = False
    made.verify = ca
    return made


def of_quic(origin, ca, **more):
    """HTTP/3 from the first request on."""
    made = session(ca, disable_http1=True, disable_http2=True, **more)
    # As if an earlier response had said so.
    url = urlsplit(origin)
    made.quic_cache_layer.add_domain(url.hostname, url.port)
    return made


def requests(origin, ca):
    with of_quic(origin, ca) as client:
        first = client.get(f"{origin}/a.txt")
        check((first.http_version, first.status_code, first.text) == (HTTP_3, 200, "file a\n"), first)
        large = client.get(f"{origin}/large.bin")
        check(large.http_version == HTTP_3 and len(large.content) == LARGE_BYTES, large)
        part = client.get(f"{origin}/large.bin", headers={"Range": "bytes=1000-1999999"})
        check(part.status_code == 206 and part.content == large.content[1000:2_000_000], part)
        again = client.get(f"{origin}/a.txt", headers={"If-None-Match": first.headers["etag"]})
        check(again.status_code == 304, again)
        head = client.head(f"{origin}/large.bin")
        check(head.headers["content-length"] == str(LARGE_BYTES), head)
        content = os.urandom(UPLOAD_BYTES)
        said = client.post(f"{origin}/app/upload", data=content).json()
        check(said == {"length": UPLOAD_BYTES, "sha256": hashlib.sha256(content).hexdigest()}, said)
        refused = client.post(f"{origin}/a.txt", data=b"x" * 100_000)
        check(refused.status_code == 405, refused)
        check([client.get(f"{origin}{path}").status_code for path in ("/none", "/gone")] == [404, 410], "other statuses")


def at_once(origin, ca):
    paths = {"/a.txt": 200, "/0.js": 200, "/none": 404, "/app/fields": 200}
    with of_quic(origin, ca, multiplexed=True) as client:
        wanted = [list(paths)[number % len(paths)] for number in range(AT_ONCE)]
        answers = [client.get(f"{origin}{path}") for path in wanted]
        client.gather()
        found = [answer.status_code for answer in answers]
        check(found == [paths[path] for path in wanted], found)
        check({answer.http_version for answer in answers} == {HTTP_3}, "another version")


def by_alt_svc(origin, ca):
    """The first response comes over TCP, and says where HTTP/3 is; the next one comes from there."""
    with session(ca) as client:
        first = client.get(f"{origin}/a.txt")
        check(first.http_version in (11, 20) and first.headers.get("alt-svc"), first.headers)
        versions = [client.get(f"{origin}/a.txt").http_version for _ in range(3)]
        check(HTTP_3 in versions, versions)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ca", required=True)
    parser.add_argument("--quic-only", action="store_true", help="the server has no TCP")
    parser.add_argument("origin")
    given = parser.parse_args()
    for step in (requests, at_once, by_alt_svc):
        if step is by_alt_svc and given.quic_only:
            continue
        step(given.origin, given.ca)
        print(f"{step.__name__}: ok")


main()
