"""Users of a site of Rails."""

import re

from kit import expect, step


def _mask(user):
    user.mask(r"_site=[^;|]+", "_site=(session)")
    user.mask(r"last=[^;|]+", "last=(signed)")
    user.mask(r'name="authenticity_token" value="[^"]+"', 'name="authenticity_token" value="(token)"')
    # Of pages that have the token in them.
    user.mask(r'W/"[0-9a-f]{32}"', 'W/"(digest)"')


def _token(user):
    return re.search(r'name="authenticity_token" value="([^"]+)"', user.get("/").text)[1]


@step
def pages(user):
    """pages, every kind of error, HEAD, conditions, a file with a name, 20 MB in pieces, methods by a form"""
    _mask(user)
    statuses = tuple(f"/status?code={code}" for code in (204, 304, 403, 418, 503))
    for path in ("/", "/tag", "/file", "/missing", "/broken", "/where", *statuses):
        user.see(path, user.get(path))
    user.see("HEAD", user.request("HEAD", "/tag"))
    tag = user.get("/tag").one("etag")
    user.see("not modified", user.get("/tag", {"If-None-Match": tag, "If-Modified-Since": "Tue, 14 Nov 2023 22:13:20 GMT"}))
    user.see("not modified since", user.get("/tag", {"If-Modified-Since": "Tue, 14 Nov 2023 22:13:20 GMT"}))
    user.see("modified", user.get("/tag", {"If-None-Match": '"two"'}))
    big = user.see("20 MB", user.get("/big"))
    expect(len(big.body) == 20_000_000, f"{len(big.body)} bytes")
    user.see("wrong query", user.get("/info?a=%zz&%ff=1"), body=False)


@step
def addresses(user):
    """the scheme, the host and the address of the client, which it cannot forge; force_ssl; names that are refused"""
    _mask(user)
    told = user.get("/info?x=%20y").json()
    expect(told["url"] == f"{user.base}/info?x=%20y", f"another address: {told}")
    expect(told["base"] == user.base and told["ssl"] == user.base.startswith("https"), f"another origin: {told}")
    user.note("address of the client", told["ip"])
    secure = user.get("/secure")
    if user.base.startswith("https"):
        expect(secure.status == 200 and secure.one("strict-transport-security"), f"no HSTS: {secure.status} {secure.fields}")
        expect("; secure" in secure.one("set-cookie"), f"a cookie for everyone: {secure.one('set-cookie')}")
    else:
        expect(secure.one("location") == f"https://{user.host}/secure", f"to {secure.one('location')}")
    if user.behind:
        forged = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "evil.test"}
        believed = user.get("/info?x=%20y", forged)
        expect(believed.status == 200 and believed.json() == told, f"it believes {believed.status} {believed.text}")
    user.see("another name", user.get("/info", {"Host": "evil.test"}))
    user.see("a name that is known", user.get("/info", {"Host": "localhost:1"}), body=False, without=("etag",))


@step
def login(user):
    """login with a CSRF token, across a reload; without one, of another origin; cookies, another user, logout"""
    _mask(user)
    user.see("nobody", user.get("/me"))
    user.see("no token", user.post("/login", form={"name": "Anna"}))
    words = {"name": "Anna é", "authenticity_token": _token(user)}
    user.see("another origin", user.post("/login", {"Origin": "https://evil.test"}, form=words))
    made = user.see("login", user.post("/login", {"Origin": user.base}, form=words))
    expect(made.status == 302 and made.one("location") == f"{user.base}/", f"{made.status}, to {made.one('location')}")
    page = user.see("welcome", user.get("/"))
    expect("welcome, Anna é" in page.text, page.text)
    user.see("welcome, once", user.get("/"))
    user.reload()
    expect(user.get("/me").text == "Anna é Anna é", "the login is lost")
    user.see("another user", user.another().get("/me"))
    user.see("logout", user.post("/login", {"Origin": user.base}, form={"_method": "delete", "authenticity_token": _token(user)}))
    user.see("nobody again", user.get("/me"))


@step
def notes(user):
    """a table in JSON: 60 rows, pages, conditions, PATCH, DELETE, errors; twelve writers at once across a reload"""
    _mask(user)
    for number in range(60):
        made = user.post("/notes", json={"text": f"note é {number}"})
        expect(made.status == 201, f"{made.status} {made.fields}")
        expect(made.one("location") == f"{user.base}/notes/{made.json()['id']}", f"it is at {made.one('location')}")
    first = user.see("first page", user.get("/notes"))
    user.see("not modified", user.get("/notes", {"If-None-Match": first.one("etag")}))
    user.see("second page", user.get("/notes?page=1"))
    user.see("changed", user.request("PATCH", "/notes/5", json={"text": "another"}))
    user.see("modified", user.get("/notes", {"If-None-Match": first.one("etag")}))
    user.see("invalid", user.post("/notes", json={"text": ""}))
    user.see("no JSON", user.post("/notes", {"Content-Type": "application/json"}, b"{"))
    user.see("deleted", user.request("DELETE", "/notes/6"))
    user.see("is gone", user.get("/notes/6"))
    others = [user.another() for _ in range(12)]
    asked = [each.start("POST", "/notes", json={"text": f"by {number}"}) for number, each in enumerate(others)]
    for each in asked:
        each.sent()
    user.reload()
    user.note("ids", sorted(each.whole().json()["id"] for each in asked))
    for each in others:
        each.close()


@step
def files(user):
    """uploads of 20 MB by form and raw, and of unknown length, across a reload; a form without a file"""
    _mask(user)
    data = bytes(range(256)) * 80_000
    user.see("form", user.post("/upload", form={"note": "é"}, files={"file": ("grüße.bin", data, "application/octet-stream")}))
    user.see("no file", user.post("/upload", form={"note": "é"}))
    user.see("raw", user.request("PUT", "/raw", {"Content-Type": "application/x-own"}, data))

    def pieces():
        for at in range(0, 5_000_000, 50_000):
            if at == 2_000_000:
                user.another().reload()
            yield data[at : at + 50_000]

    user.see("unknown length", user.request("PUT", "/raw", {"Content-Type": "application/x-own"}, pieces()))


@step
def events(user):
    """ActionController::Live: server-sent events, each one as it comes, across a reload; two listeners, one who leaves"""
    _mask(user)
    other, third = user.another(), user.another()
    with user.start("GET", "/events?who=Anna") as stream, third.start("GET", "/events?who=Ben") as left:
        user.see("head", stream.head(), body=False)
        turns = stream.events()
        user.note("who", next(turns))
        user.note("the other", next(left.events()))
        for number in range(6):
            if number == 3:
                user.reload()
            other.post("/next", form={"who": "Anna", "turn": str(number)})
            user.note(f"event {number}", next(turns))
        left.close()
        third.close()

        def gone():
            # What is written to one who is gone is what tells.
            other.post("/next", form={"who": "Ben", "turn": "x"})
            return other.get("/ended").text == "Ben"

        user.until("the end of the other's stream", gone)
        other.post("/next", form={"who": "Anna", "turn": "end"})
        user.note("no more", [next(turns, None), stream.end])
