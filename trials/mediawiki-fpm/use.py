"""The owner of a wiki, who writes pages with every kind of title; and readers."""

import random
import re
import urllib.parse

from kit import expect, png, step

ANNA = ("Anna", "a long secret of Anna")
# Of the files that a wiki makes at its installation, and of versions of a page.
TIMES = ("last-modified", "expires", "etag")
# What the address of a page ends with, and its title.
TITLES = {
    "C++": "C++",
    ".NET": ".NET",
    "A//B": "A//B",
    "AC/DC": "AC/DC",
    "/slash_first": "/slash first",
    "What%3F": "What?",
    "This_%26_that": "This & that",
    "100%25": "100%",
    "%C3%84_%C3%96/%E2%82%AC": "Ä Ö/€",
    "Index.php": "Index.php",
    "A.php/b": "A.php/b",
    "Style.css": "Style.css",
    "Talk:%22Quoted%22": 'Talk:"Quoted"',
    "A=b;c,d@e!f$g*h(i)": "A=b;c,d@e!f$g*h(i)",
    "~x'y": None,
    "Trailing/": "Trailing/",
    "...": "...",
    ".htaccess": ".htaccess",
    "A%253F": None,
    "%E4": None,
    "A%0Ab": None,
    "A%00b": None,
}


def _masks(user):
    for pattern, by in (
        (r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "(time)"),
        (r"\d\d:\d\d, \d{1,2} [A-Z][a-z]+ 20\d\d", "(time)"),
        (r"\d{1,2} [A-Z][a-z]+ 20\d\d(, at \d\d:\d\d)?", "(day)"),
        (r"\b20\d{12}\b|\b\d\d:\d\d\b", "(time)"),
        (r"\b1[789]\d{8}\b", "(time)"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)"),
        (r"\b[0-9a-f]{40}(\+|\\u002B)\\{1,2}", "(token)"),
        (r"\b[0-9a-f]{40}\b", "(hash)"),
        (r"\b[0-9a-f]{32}\b", "(hash)"),
        (r"(wiki(_session|UserID|UserName|Token)|UseDC|cpPosTime|cpPosIndex)=[^;]*", r"\1=(cookie)"),
        (r'"wgRequestId":"[^"]+"', '"wgRequestId":""'),
        (r'"wgBackendResponseTime":\d+', '"wgBackendResponseTime":0'),
        # The version of this module depends on the wiki's address.
        (r'"mediawiki.base","\w+"', '"mediawiki.base","(version)"'),
        (r"\[[0-9a-zA-Z_-]{24}\]", "[(request)]"),
        (r"<!-- \nNewPP limit report.*?-->", "<!-- (report) -->"),
        (r"<!-- Saved in parser cache.*?-->", "<!-- (cache) -->"),
        (r'"wgPageParseReport":\{.*?\}\}', '"wgPageParseReport":{}'),
        # MediaWiki says these where it sees https; `login` looks whether it does.
        (r"; secure\b", ""),
        (r"https?://localhost", "(scheme)://localhost"),
        (r"https?:(\\?/\\?/)\{host\}", "{base}"),
        (r"(\\?/\\?/)\{host\}", r"{base}"),
    ):
        user.mask(pattern, by)


def _token(user, kind="csrf"):
    return user.get(f"/w/api.php?action=query&meta=tokens&type={kind}&format=json").json()["query"]["tokens"][f"{kind}token"]


def _fields(page, name):
    """Hidden fields of the form that has this one."""
    form = next((each for each in page.text.split("<form")[1:] if f'"{name}"' in each.split("</form")[0]), "")
    found = {}
    for tag in re.findall(r"<input[^>]+>", form.split("</form")[0]):
        words = dict(re.findall(r'(\w+)="([^"]*)"', tag)) | {key: value for key, value in re.findall(r"(\w+)='([^']*)'", tag)}
        if words.get("type") == "hidden" and "name" in words:
            found[words["name"]] = words.get("value", "").replace("&quot;", '"').replace("&#039;", "'").replace("&amp;", "&")
    expect(name in found, f"no {name} in the form, status {page.status}: {page.text[-300:]}")
    return found


@step
def read(user):
    """pages, redirects to them, styles, scripts, files, what is forbidden and what is not there"""
    _masks(user)
    for path in ("/", "/wiki/", "/wiki/Main_Page", "/wiki/main_Page", "/wiki/Special:Version", "/wiki/No_such_page"):
        user.see(path, user.get(path), without=TIMES, body=not path.endswith("Version"))
    for path in ("/w", "/w/", "/w/index.php", "/w/index.php/Main_Page", "/w/index.php?title=Main_Page&action=raw", "/w/none.php"):
        user.see(path, user.get(path), without=TIMES, body="none" not in path)
    for path in ("/w/load.php?lang=en&modules=skins.vector.styles.legacy&only=styles&skin=vector", "/w/opensearch_desc.php"):
        user.see(path, user.get(path), without=TIMES)
    script = "/w/load.php?lang=en&modules=startup&only=scripts&raw=1&skin=vector"
    user.see("script", user.get(script), without=TIMES)
    user.see("gzip", user.get(script, {"Accept-Encoding": "gzip"}), without=TIMES, body=False)
    for path in ("/w/resources/assets/poweredby_mediawiki_88x31.png", "/w/includes/Setup.php", "/w/maintenance/update.php", "/x"):
        user.see(path, user.get(path), without=TIMES, body=path.endswith("png"))


@step
def login(user):
    """login by the form, a wrong password, what only some may see"""
    user.see("closed", user.get("/wiki/Special:Block"), without=TIMES, body=False)
    for password in ("wrong", ANNA[1]):
        page = user.get("/w/index.php?title=Special:UserLogin&returnto=Main+Page")
        form = {**_fields(page, "wpLoginToken"), "wpName": ANNA[0], "wpPassword": password, "wploginattempt": "Log in"}
        action = re.search(r'<form[^>]*action="([^"]+UserLogin[^"]*)"', page.text)[1].replace("&amp;", "&")
        done = user.post(action, form=form)
        user.see(password, done, without=TIMES, body=False)
    expect(done.status == 302, f"no login: {done.status}")
    secure = ["; secure" in each for each in done.all("set-cookie")]
    scheme = user.protocol.startswith("https")
    expect(secure and secure == [scheme] * len(secure), f"not of this scheme: {done.all('set-cookie')}")
    place = done.one("location")
    expect(place.startswith(user.base + "/"), f"elsewhere: {place}")
    page = user.get(place.removeprefix(user.base))
    expect('"wgUserName":"Anna"' in page.text, f"not logged in: {page.status}")


@step
def titles(user):
    """titles with `+`, `.NET`, `//`, `?`, `&`, `%`, `.php`, `/` at both ends, umlauts; encoded in other ways, with queries; wrong ones"""
    token, reader = _token(user), user.another()
    for number, (address, title) in enumerate(TITLES.items()):
        if number == len(TITLES) // 2:
            user.reload()
        if title:
            form = {"action": "edit", "title": title, "text": f"Text of ''{number}'': [[Main Page]]", "format": "json", "token": token}
            made = user.post("/w/api.php", form=form)
            expect('"Success"' in made.text, f"{title}: {made.status} {made.text[:300]}")
        page = user.see(address, reader.get(f"/wiki/{address}"), without=TIMES)
        if title:
            expect(f"Text of <i>{number}</i>" in page.text, f"{title}: status {page.status}: {page.text[:300]}")
            user.see(f"history {address}", reader.get(f"/wiki/{address}?action=history"), without=TIMES)
            user.see(f"raw {address}", reader.get(f"/w/index.php?title={urllib.parse.quote_plus(title)}&action=raw"), without=TIMES)
            rest = user.see(f"rest {address}", reader.get(f"/w/rest.php/v1/page/{urllib.parse.quote(title, safe='')}"), without=TIMES)
            expect(rest.status == 200, f"{title}: rest.php: {rest.status} {rest.text[:300]}")
    for path in ("AC%2FDC", "AC%2fDC", "C%2B%2B", "%2ENET", "What%3F?action=raw", "What?", "A/../C++", "A%20B", "C++?x=a+b%2Fc", "x/%2e%2e/AC/DC"):
        user.see(f"as {path}", reader.get(f"/wiki/{path}"), without=TIMES)
    for path in ("C++", "AC/DC", ".NET", "A.php/b", "A//B", "100%25"):
        user.see(f"behind a script {path}", reader.get(f"/w/index.php/{path}"), without=TIMES)


@step
def edit(user):
    """edit a page by the form four times, across a reload; histories, differences, search, a feed, a wrong token, 1.5 MB of text"""
    for number in range(4):
        if number == 2:
            user.reload()
        page = user.get("/w/index.php?title=First_%C3%A9&action=edit")
        text = f"== Heading {number} ==\n" + "Line with '''bold''', [[C++]], [[.NET]] and é\n\n" * (10 + number)
        form = {**_fields(page, "wpEditToken"), "wpTextbox1": text, "wpSummary": f"number {number}", "wpSave": "Save"}
        saved = user.post("/w/index.php?title=First_%C3%A9&action=submit", form=form)
        user.see(f"saved {number}", saved, without=TIMES)
        expect(saved.status == 302, f"not saved: {saved.status}")
    again = user.post("/w/index.php?title=First_%C3%A9&action=submit", form={**form, "wpTextbox1": "other", "wpEditToken": "wrong"})
    user.see("a wrong token", again, without=TIMES, body=False)
    reader = user.another()
    page = user.see("page", reader.get("/wiki/First_%C3%A9"), without=TIMES)
    expect("Heading 3" in page.text, "another version")
    for query in ("action=history", "action=info", "diff=prev&oldid=cur", "action=render", "printable=yes"):
        user.see(query, reader.get(f"/w/index.php?title=First_%C3%A9&{query}"), without=TIMES, body=query != "action=info")
    user.see("search", reader.get("/w/index.php?search=bold+%C3%A9"), without=TIMES, body=False)
    user.see("go", reader.get("/w/index.php?search=C%2B%2B&go=Go"), without=TIMES)
    user.see("feed", reader.get("/w/api.php?action=feedrecentchanges&feedformat=atom"), without=TIMES, body=False)
    user.see("list", reader.get("/w/api.php?action=query&list=allpages&aplimit=50&format=json"), without=TIMES)
    whole = "".join(f"{number:09d}\n" for number in range(150_000))
    form = {"action": "edit", "title": "Long", "text": whole, "format": "json", "token": _token(user)}
    made = user.post("/w/api.php", form=form)
    expect('"Success"' in made.text, f"the long page: {made.status} {made.text[:300]}")
    raw = reader.get("/wiki/Long?action=raw")
    expect(raw.text == whole.rstrip("\n"), f"another text: {raw.status}, {len(raw.body)} bytes")
    user.see("conditions", reader.get("/wiki/First_%C3%A9", {"If-Modified-Since": page.one("last-modified")}), without=TIMES)


@step
def upload(user):
    """the upload of a picture, of 20 MB, of 8 MB in pieces; ranges and conditions; deletion"""
    token, data = _token(user), png()
    kind, form = "application/octet-stream", {"action": "upload", "format": "json", "token": token, "ignorewarnings": "1"}
    files = {"file": ("a.png", data, "image/png")}
    made = user.see("picture", user.post("/w/api.php", form={**form, "filename": "Ein_Bild_+.png"}, files=files), without=TIMES)
    expect('"Success"' in made.text, f"no upload: {made.status} {made.text[:300]}")
    reader = user.another()
    user.see("page", reader.get("/wiki/File:Ein_Bild_+.png"), without=TIMES)
    path = urllib.parse.urlsplit(made.json()["upload"]["imageinfo"]["url"]).path
    got = user.see("get", reader.get(path), without=TIMES)
    expect(got.body == data, f"another picture: {got.status}, {len(got.body)} bytes")
    user.see("range", reader.get(path, {"Range": "bytes=100-199"}), without=TIMES)
    user.see("again", reader.get(path, {"If-None-Match": got.one("etag")}), without=TIMES)
    large = random.Random(3).randbytes(20_000_000)
    made = user.post("/w/api.php", form={**form, "filename": "Large.bin"}, files={"file": ("b", large, kind)})
    expect('"Success"' in made.text, f"no upload: {made.status} {made.text[:300]}")
    back = reader.get(urllib.parse.urlsplit(made.json()["upload"]["imageinfo"]["url"]).path)
    expect(back.body == large, f"another file: {back.status}, {len(back.body)} bytes")
    key, part = {}, 2_000_000
    for at in range(0, 8_000_000, part):
        if at == 2 * part:
            user.reload()
        words = {**form, **key, "filename": "Parts.bin", "stash": "1", "offset": str(at), "filesize": "8000000"}
        sent = user.post("/w/api.php", form=words, files={"chunk": ("c", large[at : at + part], kind)})
        expect("filekey" in sent.text, f"piece at {at}: {sent.status} {sent.text[:300]}")
        key = {"filekey": sent.json()["upload"]["filekey"]}
    made = user.post("/w/api.php", form={**form, **key, "filename": "Parts.bin"})
    expect('"Success"' in made.text, f"no upload: {made.status} {made.text[:300]}")
    back = reader.get(urllib.parse.urlsplit(made.json()["upload"]["imageinfo"]["url"]).path)
    expect(back.body == large[:8_000_000], f"another file: {back.status}, {len(back.body)} bytes")
    form = {"action": "delete", "title": "File:Ein Bild +.png", "format": "json", "token": token}
    user.see("delete", user.post("/w/api.php", form=form), without=TIMES, body=False)
    user.see("deleted", reader.get(path), without=TIMES, body=False)
