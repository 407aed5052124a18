"""What a browser does on the site: the page of fifty resources, an upload, a WebSocket. For whatever drives the browser."""

import hashlib

from table import check

UPLOAD_BYTES = 1_000_000

# Content of an upload, the same in both languages.
CONTENT = bytes(at * 7 & 255 for at in range(UPLOAD_BYTES))
UPLOAD = f"""(async () => {{
    const content = Uint8Array.from({{ length: {UPLOAD_BYTES} }}, (_, at) => at * 7 & 255);
    const answer = await fetch("/app/upload", {{ method: "POST", body: content }});
    return answer.json();
}})()"""
# A text, and as many bytes as do not fit into one datagram.
WEBSOCKET = """new Promise((done, fail) => {
    const socket = new WebSocket(`wss://${location.host}/app/ws`);
    socket.binaryType = "arraybuffer";
    const seen = [];
    socket.onopen = () => { socket.send("hello"); socket.send(new Uint8Array(100000)); };
    socket.onerror = () => fail(new Error("the WebSocket failed"));
    socket.onmessage = ({ data }) => {
        seen.push(typeof data === "string" ? data : data.byteLength);
        if (seen.length === 2) { socket.onclose = () => done(seen); socket.close(); }
    };
})"""
# How everything came that the page consists of, and that it has asked for since.
PROTOCOLS = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(entry => entry.name.startsWith("https:"))
    .map(entry => `${new URL(entry.name).pathname} ${entry.nextHopProtocol}`)"""


def loaded(half, round):
    pictures = "[...document.images].filter(image => image.complete && image.naturalWidth === 10).length"
    return f"location.search === '?{round}' && document.readyState === 'complete' && window.count === {half} && {pictures} === {half}"


def visit(browser, url, resources, websocket):
    """`browser` has `go(url)`, `until(expression, what)` and `evaluate(expression)`. Looks twice: what a browser knows of the
    server is better the second time."""
    half = resources // 2
    for round in ("first", "second"):
        browser.go(f"{url}?{round}")
        browser.until(loaded(half, round), "scripts and pictures are there")
        # The second time, pictures may be the browser's own.
        check_protocols(browser.evaluate(PROTOCOLS), 1 + 2 * half if round == "first" else 1, round)
    said = browser.evaluate(UPLOAD)
    check(said == {"length": UPLOAD_BYTES, "sha256": hashlib.sha256(CONTENT).hexdigest()}, said)
    came = browser.evaluate(PROTOCOLS)
    check_protocols(came, 2, "upload")
    check(any(entry.startswith("/app/upload ") for entry in came), came)
    if websocket:
        said = browser.evaluate(WEBSOCKET)
        check(said == ["hello", 100_000], said)


def check_protocols(came, count, round):
    check(len(came) >= count, f"{round}: {len(came)} entries, wanted {count}")
    others = [entry for entry in came if not entry.endswith(" h3")]
    check(not others, f"{round}: not by HTTP/3: {others}")
