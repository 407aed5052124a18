"""Users of a site of Sinatra's."""

from kit import expect, step


@step
def pages(user):
    """pages, session cookies, redirects, every kind of error, conditions, ranges"""
    user.mask(r"rack\.session=[^;]+", "rack.session=(session)")
    for path in ("/", "/missing", "/error", "/status/204", "/status/304", "/status/418", "/status/503", "/tag", "/file"):
        user.see(path, user.get(path), without=("last-modified",) if path == "/file" else ())
    user.see("head", user.request("HEAD", "/big"))
    user.see("not modified", user.get("/tag", {"If-None-Match": '"one"'}))
    user.see("range", user.get("/file", {"Range": "bytes=10-19"}), without=("last-modified",))
    user.see("without a login", user.get("/me"))
    user.see("login", user.post("/login", form={"name": "Anna é"}))
    user.see("the user", user.get("/me"))
    user.see("another user", user.another().get("/me"))
    told = user.get("/url").json()
    expect(told["url"] == user.base + "/x?y=1", f"another address: {told}")
    expect(told["ssl"] == user.protocol.startswith("https"), f"another scheme: {told}")


@step
def bodies(user):
    """uploads of 20 MB, by form and raw, in chunks; 20 MB down"""
    data = bytes(range(256)) * 80_000
    user.see("form", user.post("/upload", form={"note": "é"}, files={"file": ("a.bin", data, "application/octet-stream")}))
    user.see("raw", user.request("PUT", "/raw", {"Content-Type": "application/x-own"}, data))
    pieces = (data[at : at + 50_000] for at in range(0, 5_000_000, 50_000))
    user.see("chunks", user.request("PUT", "/raw", {"Content-Type": "application/x-own"}, pieces))
    user.see("delete", user.request("DELETE", "/raw"))
    user.see("down", user.get("/big"))


@step
def events(user):
    """server-sent events, each one as it comes, across a reload"""
    other = user.another()
    with user.start("GET", "/events") as exchange:
        exchange.sent()
        numbers = exchange.events()
        for number in range(6):
            if number == 3:
                user.reload()
            other.post("/next")
            expect(next(numbers) == [("id", str(number)), ("data", f"é {number}")], f"not event {number}")
        user.see("events", exchange.head(), body=False)
        expect(next(numbers, None) is None, "more than six")


@step
def together(user):
    """twelve slow requests at once, across a reload"""
    others = [user.another() for _ in range(12)]
    asked = [each.start("GET", f"/slow?n={number}") for number, each in enumerate(others)]
    for each in asked:
        each.sent()
    user.reload()
    for number, each in enumerate(asked):
        user.see(f"slow {number}", each.whole())
    for each in others:
        each.close()
