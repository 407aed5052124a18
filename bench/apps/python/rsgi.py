"""RSGI, which is Granian's own interface, without a framework: /bytes/N is N bytes."""

CONTENT = b"x" * (1 << 20)


async def application(scope, protocol):
    count = int(scope.path.rpartition("/")[2])
    headers = [("content-type", "text/plain"), ("content-length", str(count))]
    protocol.response_bytes(200, headers, CONTENT[:count])
