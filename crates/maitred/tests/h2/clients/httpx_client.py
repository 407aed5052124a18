"""httpx, which speaks HTTP/2 by the package h2, as a client: many requests at once, a large body, ranges, conditions.

    httpx_client.py ORIGIN

ORIGIN is where cargo xtask test serves its site. Exit status: 0 if all was as it has to be.
"""

import asyncio
import sys

import httpx

LARGE_BYTES = 3_000_000
AT_ONCE = 200


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def main(origin):
    # Without HTTP/1.1, httpx takes HTTP/2 for granted in cleartext, too.
    async with httpx.AsyncClient(http1=False, http2=True, verify=False, base_url=origin, timeout=60) as client:
        first = await client.get("/a.txt")
        check((first.http_version, first.status_code, first.text) == ("HTTP/2", 200, "file a\n"), first)

        paths = ["/a.txt", "/0.js", "/none", "/large.bin"]
        answers = await asyncio.gather(*(client.get(paths[number % 4]) for number in range(AT_ONCE)))
        for number, answer in enumerate(answers):
            expected = [(200, 7), (200, None), (404, None), (200, LARGE_BYTES)][number % 4]
            check(answer.status_code == expected[0], answer)
            check(expected[1] in (None, len(answer.content)), f"{answer}: {len(answer.content)} bytes")

        whole = (await client.get("/large.bin")).content
        part = await client.get("/large.bin", headers={"Range": "bytes=1000-1999999"})
        check(part.status_code == 206 and part.content == whole[1000:2_000_000], part)
        again = await client.get("/a.txt", headers={"If-None-Match": first.headers["etag"]})
        check(again.status_code == 304, again)
        head = await client.head("/large.bin")
        check(head.headers["content-length"] == str(LARGE_BYTES), head)
        refused = await client.post("/a.txt", content=b"x" * 100_000)
        check(refused.status_code == 405, refused)

        # A response that is left in the middle, and others on the same connection after it. What httpx leaves it does not give
        # back to the connection's window of 16 MiB, and it gives back what it has read only by halves of that window: it can
        # leave less than 8 MiB before it waits for itself. This is one of 3 MB.
        async with client.stream("GET", "/large.bin") as answer:
            async for _ in answer.aiter_bytes(10_000):
                break
        for _ in range(3):
            check((await client.get("/a.txt")).status_code == 200, "after a response that was left")


asyncio.run(main(sys.argv[1]))
