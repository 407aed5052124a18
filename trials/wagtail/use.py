"""An editor with a browser, and programs that read what was published."""

import random
import re
import struct
import zlib

from kit import TEN_MB, expect, step


def _picture(side=1_600):
    """A PNG of noise, 7.7 MB."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    noise = random.Random(0).randbytes(side * side * 3)
    rows = b"".join(b"\0" + noise[at : at + side * 3] for at in range(0, len(noise), side * 3))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


@step
def login(user):
    """login with CSRF, https seen without a setting, wrong password, redirects, errors"""
    user.mask(r"(csrftoken|sessionid)=\w+", r"\1=(secret)")
    user.mask(r'(csrfmiddlewaretoken" value="|csrfToken|CSRF_TOKEN)[^>]*', r"\1(secret)")
    user.mask(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)")
    user.see("not logged in", user.get("/admin/"))
    form = user.see("form", user.get("/admin/login/"), body=False)
    token = re.search(r'csrfmiddlewaretoken" value="(\w+)', form.text)[1]
    referer = {"Referer": user.base + "/admin/login/", "Origin": user.base}
    fields = {"csrfmiddlewaretoken": token, "username": "anna", "password": "wrong", "next": "/admin/"}
    user.see("wrong password", user.post("/admin/login/", referer, form=fields), body=False)
    user.see("no token", user.post("/admin/login/", referer, form={**fields, "csrfmiddlewaretoken": ""}))
    user.see("wrong origin", user.post("/admin/login/", {**referer, "Origin": "https://elsewhere.test"}, form=fields))
    user.see("right password", user.post("/admin/login/", referer, form={**fields, "password": "secret"}))
    user.see("logged in", user.get("/admin/"), body=False)
    user.see("not there", user.get("/nothing/"))
    user.see("no slash", user.get("/admin/images"))


@step
def admin(user):
    """the administration in Chromium: login, an image of 8 MB, a page changed and published"""
    browser = user.browser()
    browser.open("/admin/")
    browser.fill("input[name=username]", "anna")
    browser.fill("input[name=password]", "secret")
    browser.click("form button[type=submit]")
    browser.until("location.pathname === '/admin/'", "the first page")
    browser.open("/admin/images/multiple/add/")
    browser.upload("input[type=file]", "picture.png", _picture())
    browser.until("document.querySelector('#upload-list form input[name*=title]') !== null", "the image is there")
    browser.open("/admin/pages/2/edit/")
    browser.fill("#id_title", "Début é")
    browser.click_text("More actions")
    browser.click("[name=action-publish]")
    browser.until("location.pathname.startsWith('/admin/pages/')", "the page is saved")
    browser.see("published")
    browser.open("/admin/images/")
    browser.until("[...document.images].some(each => each.src.includes('/media/') && each.naturalWidth > 0)", "the small image")
    browser.note(files=20)


@step
def reload(user):
    """a document of 10 MB in Chromium across a reload, the same bytes back, ranges and conditions"""
    browser = user.browser()
    browser.open("/admin/documents/multiple/add/")
    browser.upload("input[type=file]", "a.bin", TEN_MB)
    user.reload()
    browser.until("document.querySelector('#upload-list form input[name*=title]') !== null", "the document is there")
    browser.note()
    whole = user.see("document", user.get("/documents/1/a.bin"), without=("last-modified",))
    expect(whole.body == TEN_MB, "not the same bytes")
    user.see("HEAD", user.request("HEAD", "/documents/1/a.bin"), without=("last-modified",))
    user.see("again", user.get("/documents/1/a.bin", {"If-None-Match": whole.one("etag") or "*"}), without=("last-modified",))
    user.see("range", user.get("/documents/1/a.bin", {"Range": "bytes=1000-1999"}), without=("last-modified",))


@step
def published(user):
    """the API: pages, images, documents; the image itself"""
    user.mask(r'"first_published_at": "[^"]+"', '"first_published_at": (time)')
    user.see("pages", user.get("/api/pages/"))
    user.see("page", user.get("/api/pages/2/"))
    user.see("documents", user.get("/api/documents/1/"))
    user.see("wrong query", user.get("/api/pages/?limit=1000"))
    image = user.see("image", user.get("/api/images/1/")).json()
    expect((image["width"], image["height"]) == (1_600, 1_600), f"{image}")
    # Alone these are Django's, behind Maitred they are Maitred's: the bytes are the same.
    found = user.get(image["meta"]["download_url"].removeprefix("https://site.test"))
    user.note("the image", (found.status, zlib.crc32(found.body), found.one("content-type")))
