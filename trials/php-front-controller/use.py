"""The owner of a collection of bookmarks, a program that uses its API, and readers."""

import base64
import hashlib
import hmac
import re

from kit import expect, step

SECRET = b"a long secret of the API"
LINKS = {
    "https://example.test/a?b=c&d=e": ("A page", "web c++ .net"),
    "https://example.test/b/../c": ("Ünicode é", "a/b 100% ä"),
    "https://example.test/d#e": ("<script>", "what? x&y"),
}


def _masks(user):
    user.mask(r"\b[0-9a-z]{26}\b", "(session)")
    user.mask(r"\b[0-9a-f]{32}\b", "(token)")
    user.mask(r"Max-Age=\d+", "Max-Age=(seconds)")
    user.mask(r"(\\?/tmp)?\\?/trial-[^/]*?\\?/www", "{www}")


def _token(secret=SECRET):
    parts = [base64.urlsafe_b64encode(each).rstrip(b"=") for each in (b'{"typ":"JWT","alg":"HS512"}', b'{"iat":1}')]
    mac = hmac.new(secret, b".".join(parts), hashlib.sha512).digest()
    return {"Authorization": "Bearer " + b".".join([*parts, base64.urlsafe_b64encode(mac).rstrip(b"=")]).decode()}


@step
def paths(user):
    """the base path, index.php in paths, dots, `//`, `%2F`, `+` and `%` in paths and tags, queries, files, what is forbidden"""
    _masks(user)
    for path in ("", "?", "index.php", "index.php/", "index.php/where", "where?a=b+c%2F&d", "where/", "none", "error", "Index.php", "none.php"):
        user.see(path, user.get(f"/links/{path}"))
    for path in ("/links", "/other.php/a/b", "/none.php", "/none"):
        user.see(path, user.get(path), body=path.startswith("/other"))
    for path in ("a/b", "a//b", "a%2Fb", "c++", "c%2B%2B", ".net", "%2Enet", "x.php", "x.php/y", "100%25", "%C3%A4 b".replace(" ", "%20"), "a;b=c", "a%3Fb"):
        user.see(f"tags {path}", user.get(f"/links/tags/{path}"))
    for path in ("c++", "a%252Fb", ".net", "100%2525", "%C3%A4", "x%26y"):
        user.see(f"add {path}", user.get(f"/links/add-tag/{path}"))
    user.see("up", user.get("/links/tags/../where"))
    for path in ("assets/style.css", "assets/none.css", "data/links.json", "vendor/autoload.php"):
        user.see(path, user.get(f"/links/{path}"), without=("last-modified", "etag"), body=path.endswith("style.css"))
    user.see("method", user.request("DELETE", "/links/where"))
    user.see("head", user.request("HEAD", "/links/tags/x"))


@step
def login(user):
    """login with a token, a wrong password, redirects with relative addresses, cookies of the directory, logout"""
    closed = user.see("closed", user.get("/links/admin/export?x=a%2Fb"))
    user.see("to the login", user.get(closed.one("location")))
    token = re.search(r'value="(\w+)"', user.get("/links/login").text)[1]
    form = {"name": "anna", "password": "secret", "token": token}
    user.see("wrong", user.post("/links/login", form={**form, "password": "x"}))
    user.see("no token", user.post("/links/login", form={**form, "token": "x"}))
    user.see("login", user.post("/links/login", form={**form, "longlastingsession": "1"}))
    page = user.see("page", user.get("/links/"))
    expect("for anna" in page.text, f"not logged in: {page.text}")
    followed = user.post("/links/login", form={**form, "returnurl": "./where?a=b"}, follow=True)
    user.see("followed", followed, body=False)
    other = user.another()
    token = re.search(r'value="(\w+)"', other.get("/links/login").text)[1]
    user.see("another", other.post("/links/login", form={**form, "name": "ben", "token": token}))
    user.see("logout", other.get("/links/admin/logout"))
    user.see("out", other.get("/links/admin/export"))


@step
def bookmarks(user):
    """bookmarks by forms across a reload, permalinks of old, tags, a feed; 20 MB up, 20 MB down as they come"""
    shorts, reader = [], user.another()
    for number, (url, (title, tags)) in enumerate(LINKS.items()):
        if number == 1:
            user.reload()
        made = user.see(url, user.post("/links/admin/shaare", form={"url": url, "title": title, "tags": tags}))
        expect(made.status == 302, f"not there: {made.status} {made.text}")
        shorts.append(made.one("location").rpartition("?")[2])
    for short in shorts:
        found = user.see(f"old {short}", reader.get(f"/links/?{short}"))
        expect(found.one("location") == f"./shaare/{short}", f"elsewhere: {found.fields}")
        user.see(f"new {short}", reader.get(f"/links/shaare/{short}"))
        whole = reader.get(f"/links/?{short}", follow=True)
        expect(whole.status == 200 and short in whole.text, f"{whole.status}: {whole.text}")
    for tag in ("c%2B%2B", "a%2Fb", "100%25", "%C3%A4", "x%26y", "what%3F", ".net"):
        page = user.see(f"tag {tag}", reader.get(f"/links/?searchtags={tag}"))
        expect("<li>" in page.text, f"{tag}: nothing found: {page.text}")
    user.see("none", reader.get("/links/shaare/none"))
    user.see("feed", reader.get("/links/feed/atom"))
    data = bytes(range(256)) * 80_000
    user.see("import", user.post("/links/admin/import", files={"filetoupload": ("Ä b.html", data, "text/html")}))
    with user.start("GET", "/links/admin/export") as exchange:
        exchange.head()
        user.reload()
        whole = user.see("export", exchange.whole(), body=False)
    expect(len(whole.body) == 20_000_000, f"{len(whole.body)} bytes")
    user.note("exported", hashlib.sha256(whole.body).hexdigest())


@step
def api(user):
    """the API: signed requests, JSON, PUT, DELETE, `%2F` and dots in names, wrong tokens"""
    own = _token()
    user.see("no token", user.get("/links/api/v1/links"))
    user.see("wrong", user.get("/links/api/v1/links", _token(b"another")))
    user.see("list", user.get("/links/api/v1/links", own))
    made = user.see("new", user.post("/links/api/v1/links", own, json={"url": "https://example.test/é", "tags": ["a/b"]}))
    place = made.one("location")
    user.see("get", user.get(place, own))
    user.see("change", user.request("PUT", place, own, json={"title": "Other é"}))
    user.reload()
    pieces = iter([b'{"title": "In ', b'pieces"}'])
    user.see("in chunks", user.request("PUT", place, {**own, "Content-Type": "application/json"}, pieces))
    user.see("delete", user.request("DELETE", place, own))
    user.see("gone", user.get(place, own))
    for name in ("a%2Fb", ".net", "c++", "x.php", "100%25"):
        user.see(f"tag {name}", user.request("PUT", f"/links/api/v1/tags/{name}", own, json={"name": "x"}))
    user.see("a wrong method", user.request("PATCH", place, own))
