"""Members of a project, who log in, write pages and tickets, and attach files; and readers."""

import random
import re
import time
import urllib.parse

from kit import expect, step

ANNA = ("anna", "secret")
TIMES = ("last-modified", "etag", "expires")
# What the address of a page ends with, and its name.
TITLES = {
    "C++": "C++",
    "AC/DC": "AC/DC",
    "Mit%20Leerzeichen": "Mit Leerzeichen",
    "%C3%84%20%C3%96/%E2%82%AC": "Ä Ö/€",
    "What%3F": "What?",
    "This%20%26%20that": "This & that",
    "100%25": "100%",
    "A%253F": "A%3F",
    ".NET": ".NET",
    "a/.b/...": "a/.b/...",
    "A=b;c,d@e!f$g*h(i)": "A=b;c,d@e!f$g*h(i)",
    "index.php/x": "index.php/x",
    "%22Quoted%22%20'x'": "\"Quoted\" 'x'",
    "%E2%98%83": "☃",
    "%23hash": "#hash",
    "back%5Cslash": "back\\slash",
}


def _masks(user):
    for pattern, by in (
        (r"__FORM_TOKEN([\"' \\w=]+)[0-9a-f]{24}", r"__FORM_TOKEN\1(token)"),
        (r"form_token([\"']?[:=] ?[\"'])[0-9a-f]{24}", r"form_token\1(token)"),
        (r"\b[0-9a-f]{24}\b", "(token)"),
        (r"\b[0-9a-f]{32}\b", "(cookie)"),
        (r"trac_(auth|session|form_token)=[^;]+", r"trac_\1=(cookie)"),
        (r"(date=)[^\"&]+(&amp;|&)precision=second", r"\1(time)"),
        (r"20\d\d-\d\d-\d\d(T| |%20|%3A)*\d\d(:|%3A)\d\d((:|%3A)\d\d)?(\.\d+)?(\+00:00|%2B00(:|%3A)00|Z)?", "(time)"),
        (r"20\d\d-\d\d-\d\d", "(day)"),
        (r"20\d{6}T\d{6}Z?", "(time)"),
        (r"\b20\d\d\d{10,}\b|\b1[789]\d{8,14}\b", "(time)"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)"),
        (r"\b\d\d:\d\d(:\d\d)?\b", "(time)"),
        (r"\b\d+ (seconds?|minutes?)\b", "(a while)"),
        (r"\b(less than a second|a moment) ago\b", "(a while) ago"),
        (r"\(time\) ago", "(a while) ago"),
    ):
        user.mask(pattern, by)


def _token(user):
    """What has to come back with every form."""
    token = user.client.cookies().get("trac_form_token")
    expect(token, "no cookie with a token")
    return token


def _form(user, path):
    page = user.get(path)
    expect(page.status == 200, f"{path}: status {page.status}")
    fields = {}
    for tag in re.findall(r"<input[^>]+>", page.text):
        words = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if words.get("type") == "hidden":
            fields[words["name"]] = words.get("value", "")
    return {**fields, "__FORM_TOKEN": _token(user)}


def _next_second(user):
    """Trac removes the cookie of a session without a user by one that ends now, and libcurl keeps that for the rest of the second."""
    second = int(time.time())
    # libcurl's clock is that of the last tick.
    user.until("the next second", lambda: time.time() > second + 1.1)


@step
def login(user):
    """login by Basic authentication, a wrong password, whom the application sees, logout, what only some may see"""
    _masks(user)
    user.see("before", user.get("/trac/wiki"), without=TIMES)
    user.see("closed", user.get("/trac/admin"), without=TIMES)
    # The password matters at the login only.
    user.see("elsewhere", user.another().get("/trac/admin", user=ANNA), without=TIMES, body=False)
    user.see("no password", user.get("/trac/login"), body=False)
    user.see("wrong", user.get("/trac/login", user=("anna", "wrong")), body=False)
    user.see("not a user", user.another().get("/trac/login", {"Remote-User": "anna", "X-Remote-User": "anna"}), body=False)
    done = user.see("login", user.get("/trac/login", {"Referer": user.base + "/trac/wiki/WikiStart"}, user=ANNA), without=TIMES)
    expect(done.one("location") == user.base + "/trac/wiki/WikiStart", f"status {done.status}: {done.fields}")
    _next_second(user)
    page = user.see("admin", user.get("/trac/admin/general/basics"), without=TIMES)
    expect("logged in as" in page.text and "anna" in page.text, f"not logged in: {page.status}")
    other = user.another()
    other.get("/trac/login", user=("ben", "secret"))
    _next_second(user)
    user.see("another", other.get("/trac/prefs"), without=TIMES)
    user.see("not allowed", other.get("/trac/admin/general/basics"), without=TIMES)
    user.see("logout", other.post("/trac/logout", form={"__FORM_TOKEN": _token(other)}), without=TIMES)
    user.see("nobody", other.get("/trac/prefs"), without=TIMES)


@step
def titles(user):
    """new pages with `/`, `+`, `?`, `&`, `%`, `#`, blanks, dots and umlauts in their names, across a reload"""
    reader = user.another()
    for number, (address, title) in enumerate(TITLES.items()):
        if number == len(TITLES) // 2:
            user.reload()
        path = f"/trac/wiki/{address}"
        form = {**_form(user, f"{path}?action=edit"), "action": "edit", "version": "0", "save": "Submit changes"}
        form["text"] = f"= Title {number} =\n''Text'' of {title}: WikiStart, #1\n"
        saved = user.see(f"saved {address}", user.post(path, form=form), without=TIMES)
        expect(saved.status in (302, 303), f"{title}: not saved, status {saved.status}: {saved.text[-300:]}")
        page = user.see(f"redirected {address}", reader.get(saved.one("location").removeprefix(user.base)), without=TIMES)
        expect(f"Title {number}" in page.text, f"{title}: status {page.status}")


@step
def reading(user):
    """the same pages: as text, their histories; addresses that are encoded in other ways, with queries; an index, search"""
    reader = user.another()
    for number, address in enumerate(TITLES):
        page = user.see(address, reader.get(f"/trac/wiki/{address}?format=txt"), without=TIMES)
        expect(f"Title {number}" in page.text, f"{address}: status {page.status}")
        user.see(f"{address} history", reader.get(f"/trac/wiki/{address}?action=history"), without=TIMES)
    for path in ("AC%2FDC", "AC%2fDC", "C%2B%2B", "%2ENET", "x/../C++", "C++?x=a+b%2Fc", "%E4", "None?", "None%2F", "AC%252FDC"):
        user.see(f"as {path}", reader.get(f"/trac/wiki/{path}"), without=TIMES)
    user.see("all", reader.get("/trac/wiki/TitleIndex"), without=TIMES)
    user.see("search", reader.get("/trac/search?q=" + urllib.parse.quote_plus("Ä Ö")), without=TIMES)


@step
def edit(user):
    """edit a page four times across a reload, a preview, differences, a conflict, a page of 200 KB, deletion"""
    path = "/trac/wiki/First%20%C3%A9"
    for number in range(4):
        if number == 2:
            user.reload()
        form = {**_form(user, f"{path}?action=edit"), "action": "edit", "version": str(number), "comment": f"number {number} é"}
        words = {"text": f"Line {number} with '''bold''', [wiki:C++] and `x`\n" * (10 + number), "save": "Submit changes"}
        saved = user.see(f"saved {number}", user.post(path, form={**form, **words}), without=TIMES)
        expect(saved.status in (302, 303), f"not saved: {saved.status}")
    user.see("conflict", user.post(path, form={**form, "text": "other\n", "save": "Submit changes", "version": "1"}), without=TIMES)
    user.see("preview", user.post(path, form={**form, "text": "{{{#!python\nprint(1)\n}}}\n", "preview": "Preview Page"}), without=TIMES)
    user.see("a wrong token", user.post(path, form={**form, **words, "__FORM_TOKEN": "x" * 24}), without=TIMES)
    reader = user.another()
    user.see("differences", reader.get(f"{path}?action=diff&version=3&old_version=1"), without=TIMES)
    user.see("as text", reader.get(f"{path}?action=diff&version=3&old_version=1&format=diff"), without=TIMES)
    form = {**_form(user, "/trac/wiki/Long?action=edit"), "action": "edit", "version": "0", "save": "Submit changes"}
    long = "".join(f"{number:09d}\n" for number in range(20_000))
    saved = user.post("/trac/wiki/Long", form={**form, "text": long})
    expect(saved.status in (302, 303), f"not saved: {saved.status}")
    back = reader.get("/trac/wiki/Long?format=txt")
    expect(back.text.split() == long.split(), f"another text: {back.status}, {len(back.body)} bytes")
    form = {**_form(user, "/trac/wiki/Long?action=delete"), "action": "delete", "delete": "Delete page"}
    user.see("delete", user.post("/trac/wiki/Long", form=form), without=TIMES)
    user.see("deleted", reader.get("/trac/wiki/Long"), without=TIMES)


@step
def tickets(user):
    """tickets: new, changes, queries, reports in CSV, feeds; who may not"""
    form = _form(user, "/trac/newticket")
    for number in range(1, 6):
        if number == 3:
            user.reload()
        words = {"field_summary": f"Ticket {number} é", "field_description": f"''Text'' {number}", "field_type": "defect"}
        words |= {"field_priority": "major", "field_component": "component1", "field_reporter": "anna", "submit": "Create ticket"}
        made = user.see(f"new {number}", user.post("/trac/newticket", form={**form, **words}), without=TIMES)
        expect(made.one("location") == f"{user.base}/trac/ticket/{number}", f"status {made.status}: {made.text[-300:]}")
    form = _form(user, "/trac/ticket/2")
    words = {"comment": "Ein Kommentar [wiki:C++]", "action": "resolve", "action_resolve_resolve_resolution": "fixed"}
    done = user.post("/trac/ticket/2", form={**form, **words, "field_summary": "Ticket 2 é", "submit": "Submit changes"})
    user.see("close", done, without=TIMES)
    reader = user.another()
    for path in ("ticket/2", "ticket/2?format=csv", "ticket/2?format=rss", "ticket/9", "query?status=closed", "query?status=!closed&format=csv"):
        user.see(path, reader.get(f"/trac/{path}"), without=TIMES)
    for path in ("report", "report/1", "report/1?format=csv", "report/1?format=rss", "roadmap", "milestone/milestone1", "roadmap?format=ics"):
        user.see(path, reader.get(f"/trac/{path}"), without=TIMES)
    for path in ("timeline?ticket=on&wiki=on", "timeline?format=rss&ticket=on", "search?q=Kommentar", "about"):
        user.see(path, reader.get(f"/trac/{path}"), without=TIMES, body="timeline" not in path)
    user.see("may not", reader.post("/trac/ticket/2", form={**form, **words, "__FORM_TOKEN": "x"}), without=TIMES)


@step
def attachments(user):
    """attachments of tickets and pages: names with blanks, `+`, `%` and umlauts, 20 MB, ranges, conditions, a ZIP, deletion"""
    data = random.Random(5).randbytes(20_000_000)
    reader = user.another()
    small = {"a b+c.txt": b"Text \xc3\xa9\n" * 100, "Übersicht 100%.bin": bytes(range(256)) * 1000, "x#y&z;.py": b"print(1)\n"}
    for place in ("ticket/1", "wiki/AC/DC"):
        form = {**_form(user, f"/trac/attachment/{place}/?action=new"), "action": "new", "description": "é"}
        large = {"large.bin": data} if place == "ticket/1" else {}
        for name, content in {**small, **large}.items():
            files = {"attachment": (name, content, "application/octet-stream")}
            made = user.see(f"{place} {name}", user.post(f"/trac/attachment/{place}/?action=new", form=form, files=files), without=TIMES)
            expect(made.status in (302, 303), f"{name}: status {made.status}: {made.text[-300:]}")
            address = f"{place}/{urllib.parse.quote(name, safe='+;&')}"
            back = reader.get(f"/trac/raw-attachment/{address}")
            expect(back.body == content, f"{name}: status {back.status}, {len(back.body)} bytes")
            if name not in small:
                when = back.one("last-modified")
            else:
                user.see(f"raw {address}", back, without=TIMES)
                user.see(f"page {address}", reader.get(f"/trac/attachment/{address}"), without=TIMES)
    user.see("range", reader.get("/trac/raw-attachment/ticket/1/large.bin", {"Range": "bytes=1000-1999"}), without=TIMES)
    user.see("again", reader.get("/trac/raw-attachment/ticket/1/large.bin", {"If-Modified-Since": when}), without=TIMES, body=False)
    user.see("list", reader.get("/trac/attachment/ticket/1/"), without=TIMES)
    archive = reader.get("/trac/zip-attachment/wiki/AC/DC/")
    expect(archive.body.startswith(b"PK") and len(archive.body) > 1000, f"status {archive.status}, {len(archive.body)} bytes")
    user.see("archive", archive, without=(*TIMES, "content-length"), body=False)
    path = "/trac/attachment/ticket/1/a%20b+c.txt"
    form = {**_form(user, f"{path}?action=delete"), "action": "delete"}
    user.see("delete", user.post(path, form=form), without=TIMES)
    user.see("deleted", reader.get(path), without=TIMES)


@step
def files(user):
    """styles, scripts, what is not there"""
    for path in ("css/trac.css", "js/jquery.js", "trac.ico", "none.css", "../../conf/trac.ini", "%2e%2e/%2e%2e/conf/trac.ini"):
        user.see(path, user.get(f"/trac/chrome/common/{path}"), without=TIMES)
    user.see("head", user.request("HEAD", "/trac/chrome/common/css/trac.css"), without=TIMES)
    for path in ("/trac/", "/trac/none", "/trac/wiki/WikiFormatting", "/trac/chrome/site/none"):
        user.see(path, user.get(path), without=TIMES)
