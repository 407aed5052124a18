"""A user who looks at data."""

from kit import step


@step
def pages(user):
    """pages, JSON, facets, SQL queries, errors, static files"""
    user.mask(r"[\d.]+ ?ms", "(time)")
    # It counts them for 50 ms at most.
    user.mask(r"<p>(Many|5,000) rows</p>", "<p>rows</p>")
    user.mask(r'"query_ms": [\d.]+', '"query_ms": (time)')
    user.mask(r"static/[\w.-]+\?[0-9a-f]+", "static/(hash)")
    for path in (
        "/", "/data", "/data/places", "/data/places/17", "/data/places.json?_size=5&_sort_desc=height", "/data/places/17.json",
        "/data.json?sql=select+count(*)+from+places", "/data?sql=select+*+from+places+limit+3", "/data/places?_facet=name&_size=1",
        "/data/places.json?name__contains=%C3%A9+4999", "/data.json?sql=delete+from+places", "/missing", "/data/places/x",
        "/-/static/app.css", "/-/metadata.json", "/data/places?_search=", "/data/places/", "/-/threads.json?x",
    ):
        user.see(path, user.get(path), without=("etag",) if "threads" in path else (), body="threads" not in path)


@step
def export(user):
    """a CSV stream of 5,000 rows, and of one across a reload; the database itself"""
    user.see("CSV", user.get("/data/places.csv?_stream=1&_size=max"))
    with user.start("GET", "/data/places.csv?_stream=1&_size=max") as stream:
        stream.head()
        first = stream.read()
        user.reload()
        rest = stream.whole()
    user.note("lines", ((first + rest.body).count(b"\n"), rest.end))
    user.see("download", user.get("/data.db"), without=("last-modified",), body=False)
    user.see("CORS", user.request("OPTIONS", "/data.json", {"Origin": "https://example.test"}))
