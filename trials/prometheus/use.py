"""A user who looks at series, and a program that asks for them."""

from kit import expect, step


@step
def pages(user):
    """pages, scripts, metrics, health, redirects, errors"""
    for path in ("/-/healthy", "/-/ready", "/", "/classic/graph", "/favicon.ico", "/missing", "/api/v1/missing"):
        user.see(path, user.get(path), without=("last-modified",))
    for path in ("/metrics", "/status", "/config", "/targets", "/rules", "/flags"):
        page = user.see(path, user.get(path), body=False, without=("content-length", "transfer-encoding"))
        expect(page.end == "complete", page.end)
    user.see("CORS", user.request("OPTIONS", "/api/v1/query", {"Origin": "https://graphs.test"}))


@step
def queries(user):
    """queries by GET and by form, 11,000 points with and without gzip, labels, wrong queries, eight at once across a reload"""
    user.see("now", user.get("/api/v1/query?query=vector(1)&time=1000"))
    user.see("form", user.post("/api/v1/query", form={"query": 'label_replace(vector(2), "a", "é", "", "")', "time": "1000"}))
    path = "/api/v1/query_range?query=time()&start=0&end=10999&step=1"
    user.see("range", user.get(path))
    user.see("gzip", user.get(path, {"Accept-Encoding": "gzip"}))
    user.see("too many", user.get(path + "000&end=99999999"))
    user.see("wrong", user.get("/api/v1/query?query=%7B"))
    user.see("labels", user.get("/api/v1/label/kind/values?match%5B%5D=nothing"))
    others = [user.another() for _ in range(8)]
    rest = "&start=0&end=10000&step=1"
    asked = [each.start("GET", f"/api/v1/query_range?query=time()%2B{n}{rest}") for n, each in enumerate(others)]
    for each in asked:
        each.sent()
    user.reload()
    for number, each in enumerate(asked):
        user.see(f"answer {number}", each.whole())
    for each in others:
        each.close()


@step
def rules(user):
    """a recorded series, federation, a reload of Prometheus's own, what is forbidden"""

    def recorded():
        return user.get("/api/v1/query?query=own:one").json()["data"]["result"]

    found = user.until("a recorded series", recorded)
    user.note("series", [found[0]["metric"], found[0]["value"][1]])
    text = user.get("/federate?match%5B%5D=own:one")
    expect('own:one{kind="é"' in text.text, text.text)
    user.see("federate", text, body=False, without=("content-length",))
    user.see("reload", user.post("/-/reload"))
    user.see("wrong method", user.get("/-/reload"))
    user.see("forbidden", user.post("/api/v1/admin/tsdb/snapshot"))
    user.see("no snappy", user.post("/api/v1/read", body=b"x" * 100_000))
