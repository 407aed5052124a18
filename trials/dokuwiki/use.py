"""An author of a wiki, and readers."""

import re
import time

from kit import expect, step

PAGE = "wiki:first"
TIMES = ("last-modified", "etag", "expires")


def _masks(user):
    user.mask(r"20\d\d[/-]\d\d[/-]\d\d[ T]\d\d:\d\d(:\d\d)?(\+00:00|Z)?", "(time)")
    user.mask(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} (\+0000|GMT)", "(time)")
    user.mask(r"\b1[789]\d{8}\b", "(time)")
    user.mask(r"\b[0-9a-f]{32}\b", "(hash)")
    user.mask(r"(DokuWiki|DW[0-9a-f]{32}|DW\(hash\)|DW[0-9a-f]+)=[^;]+", r"cookie=(session)")
    user.mask(r"\b[0-9a-z]{26}\b", "(session)")
    # DokuWiki says these where it sees https; `login` looks whether it does.
    user.mask(r"; secure\b", "")
    user.mask(r'"secure":(true|false)', '"secure":(by scheme)')


def _form(user, path):
    """Hidden fields of a form, with the token that has to come back."""
    page = user.get(path)
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    expect("sectok" in found, f"no form, status {page.status}: {page.text[-300:]}")
    return found


@step
def read(user):
    """pages, styles, scripts, the sitemap, a feed, what is forbidden, errors"""
    _masks(user)
    pages = ("/", "/doku.php", "/doku.php/no:such:page", "/doku.php?do=index", "/doku.php?do=recent")
    for path in (*pages, "/feed.php", "/inc/init.php", "/x"):
        user.see(path, user.get(path), without=TIMES)
    for path in ("/lib/exe/css.php?t=dokuwiki", "/lib/exe/js.php?t=dokuwiki", "/lib/tpl/dokuwiki/images/favicon.ico"):
        user.see(path, user.get(path), without=TIMES)


@step
def login(user):
    """login, a wrong password, what only some may read"""
    form = {"do": "login", "id": "start", "u": "anna", "p": "wrong", "r": "1"}
    sectok = _form(user, "/doku.php?do=login&id=start")["sectok"]
    user.see("wrong", user.post("/doku.php", form={**form, "sectok": sectok}), without=TIMES)
    user.see("secret", user.another().get("/doku.php/secret:page"), without=TIMES)
    done = user.post("/doku.php", form={**form, "p": "secret", "sectok": sectok})
    user.see("login", done, without=TIMES)
    secure = ["; secure" in each for each in done.all("set-cookie")]
    scheme = user.protocol.startswith("https")
    expect(secure and secure == [scheme] * len(secure), f"not of this scheme: {done.all('set-cookie')}")
    page = user.get("/doku.php/start")
    expect("Logged in as" in page.text, f"not logged in: {page.status}")


@step
def edit(user):
    """edit a page five times, across a reload; its history, differences, search, a conflict"""
    for number in range(5):
        if number == 2:
            user.reload()
        form = _form(user, f"/doku.php?id={PAGE}&do=edit")
        text = "====== First é ======\n\n" + f"Line {number} with **bold**, [[start]] and <code>x</code>\n\n" * (10 + number)
        words = {"id": PAGE, "wikitext": text, "summary": f"number {number}", "do[save]": "1"}
        saved = user.post("/doku.php", form={**form, **words})
        user.see(f"saved {number}", saved, without=TIMES)
        expect(saved.status == 302, f"not saved: {saved.status}")
        # Versions are known by their second; of those in the same one only some are in the history.
        second = int(time.time())
        user.until("the next second", lambda second=second: int(time.time()) > second)
    reader = user.another()
    page = user.see("page", reader.get("/doku.php/wiki:first"), without=TIMES)
    expect("Line 4" in page.text, "another version")
    user.see("raw", reader.get("/doku.php?id=wiki:first&do=export_raw"), without=TIMES)
    user.see("history", reader.get("/doku.php?id=wiki:first&do=revisions"), without=TIMES)
    user.see("search", reader.get("/doku.php?do=search&q=bold"), without=TIMES, body=False)
    user.see("forbidden", reader.get("/doku.php?id=wiki:first&do=admin"), without=TIMES)


@step
def upload(user):
    """upload of files by the media manager and by its script, downloads with ranges and conditions, deletion"""
    sectok = _form(user, "/lib/exe/mediamanager.php?ns=wiki")["sectok"]
    data = bytes(range(256)) * 4000
    form = {"sectok": sectok, "ns": "wiki", "mediaid": "a.zip", "ow": "1"}
    files = {"upload": ("a.zip", data, "application/zip")}
    user.see("upload", user.post("/lib/exe/mediamanager.php", form=form, files=files), without=TIMES, body=False)
    path = "/lib/exe/fetch.php?media=wiki:a.zip"
    got = user.see("download", user.get(path), without=TIMES)
    expect(got.body == data, f"another file: {got.status}, {len(got.body)} bytes")
    user.see("range", user.get(path, {"Range": "bytes=1000-1999"}), without=TIMES)
    user.see("conditions", user.get(path, {"If-None-Match": got.one("etag") or "x"}), without=TIMES)
    large = bytes(range(256)) * 40_000
    query = f"/lib/exe/ajax.php?call=mediaupload&ns=wiki&qqfile=b.zip&sectok={sectok}&ow=1"
    user.see("script", user.post(query, {"Content-Type": "application/octet-stream"}, large), without=TIMES)
    got = user.another().get("/lib/exe/fetch.php/wiki:b.zip")
    expect(got.body == large, f"another file: {got.status}, {len(got.body)} bytes")
    form = {"sectok": sectok, "ns": "wiki", "delete": "wiki:a.zip"}
    gone = user.see("delete", user.post("/lib/exe/mediamanager.php", form=form), without=TIMES, body=False)
    expect(gone.status in (200, 302), f"status {gone.status}")
    user.see("deleted", user.get(path), without=TIMES)
