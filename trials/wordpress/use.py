"""The owner of a blog, who installs it, writes, and uploads a picture; and readers."""

import re

from kit import expect, png, step

ADMIN = {"log": "anna", "pwd": "a long secret of anna"}
# Times of this use, and what is made from them.
MASKS = (
    (r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d", "(time)"),
    (r"[A-Z][a-z]+ \d{1,2}, 20\d\d( at \d{1,2}:\d\d [ap]m)?", "(day)"),
    (r"20\d\d([/\\]+)\d\d\1", r"(month)\1"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} (\+0000|GMT)", "(time)"),
    (r"wordpress_(sec_)?[0-9a-f]{32}=[^;]+", "wordpress_=(cookie)"),
    (r"wordpress_logged_in_[0-9a-f]{32}=[^;]+", "wordpress_logged_in_=(cookie)"),
    # WordPress says it where it sees https; `install` looks whether it does.
    (r"; secure\b", ""),
    # A feed's link to itself has the scheme that WordPress sees; WordPress leaves the port out.
    (r'"https?://127\.0\.0\.1/feed/"', '"(scheme)://127.0.0.1/feed/"'),
    (r"\b[0-9a-f]{32}\b|(?<=_)[0-9a-f]{32}(?==)", "(hash)"),
    (r'data-pw="[^"]+"', 'data-pw="(secret)"'),
    (r'nonce(["\\]*[:=]["\\]*)[0-9a-f]{10}', r"nonce\1(nonce)"),
)


def _masks(user):
    for pattern, by in MASKS:
        user.mask(pattern, by)


def _nonce(user):
    """What WordPress's own pages send with requests to its REST interface."""
    page = user.get("/wp-admin/post-new.php")
    found = re.search(r'createNonceMiddleware\( "([0-9a-f]+)"', page.text)
    expect(found, f"no nonce, status {page.status}")
    return {"X-WP-Nonce": found[1]}


@step
def install(user):
    """the installation page, the first login"""
    _masks(user)
    user.see("before", user.get("/"))
    user.see("page", user.get("/wp-admin/install.php"))
    form = {"weblog_title": "Annas Blog é", "user_name": "anna", "admin_email": "anna@blog.test", "language": ""}
    secret = {"admin_password": ADMIN["pwd"], "admin_password2": ADMIN["pwd"], "pw_weak": "on", "blog_public": "1"}
    done = user.see("install", user.post("/wp-admin/install.php?step=2", form={**form, **secret}))
    expect("Success" in done.text, f"not installed: {done.text[-500:]}")
    user.see("closed", user.get("/wp-admin/"))
    user.get("/wp-login.php")
    wrong = user.post("/wp-login.php", form={**ADMIN, "pwd": "wrong", "testcookie": "1"})
    user.see("wrong", wrong, body=False, without=("content-length",))
    form = {**ADMIN, "redirect_to": "/wp-admin/", "testcookie": "1"}
    login = user.see("login", user.post("/wp-login.php", form=form), body=False)
    expect(login.status == 302, f"no login: {login.status}")
    secure = ["; secure" in each for each in login.all("set-cookie")]
    scheme = user.protocol.startswith("https")
    expect(secure and secure == [scheme] * len(secure), f"not of this scheme: {login.all('set-cookie')}")
    board = user.get("/wp-admin/")
    expect("Dashboard" in board.text, f"no dashboard: {board.status}")
    user.note("dashboard", board.status)


@step
def permalinks(user):
    """permalinks, which WordPress writes into .htaccess"""
    page = user.get("/wp-admin/options-permalink.php")
    nonce = re.search(r'name="_wpnonce" value="([0-9a-f]+)"', page.text)
    expect(nonce, f"no form: {page.status}")
    form = {"_wpnonce": nonce[1], "selection": "/%postname%/", "permalink_structure": "/%postname%/", "submit": "Save"}
    saved = user.see("saved", user.post("/wp-admin/options-permalink.php", form=form), body=False)
    # The page after it writes the file.
    user.get(saved.one("location").removeprefix(user.base))
    reader = user.another()
    user.see("sample", reader.get("/sample-page/"))
    user.see("without a slash", reader.get("/sample-page"))
    user.see("missing", reader.get("/no-such-page/"))
    user.see("feed", reader.get("/feed/"), without=("last-modified", "etag"))


@step
def posts(user):
    """posts by REST, across a reload: create, change, list, search, delete; a comment by a reader"""
    nonce, links = _nonce(user), []
    for number in range(6):
        if number == 3:
            user.reload()
        words = {"title": f"Post {number}", "content": f"<p>Text é {number}</p>" * 200, "status": "publish"}
        made = user.post("/wp-json/wp/v2/posts", nonce, json=words)
        expect(made.status == 201, f"post {number}: {made.status} {made.text[:300]}")
        links.append(made.json()["link"].removeprefix(user.base))
    user.see("made", made, without=("x-wp-nonce",))
    number = made.json()["id"]
    changed = user.request("PUT", f"/wp-json/wp/v2/posts/{number}", nonce, json={"title": "Other"})
    user.see("change", changed, without=("x-wp-nonce",))
    reader = user.another()
    user.see("list", reader.get("/wp-json/wp/v2/posts?per_page=3&page=2&orderby=id"))
    user.see("search", reader.get("/wp-json/wp/v2/posts?search=Other"))
    user.see("forbidden", reader.post("/wp-json/wp/v2/posts", json={"title": "x"}))
    user.see("post", reader.get(links[2]))
    form = {"comment": "Ein <b>Kommentar</b>", "author": "Bo", "email": "bo@blog.test", "comment_parent": "0"}
    user.see("comment", reader.post("/wp-comments-post.php", form={**form, "comment_post_ID": "1"}), body=False)
    user.see("delete", user.request("DELETE", f"/wp-json/wp/v2/posts/{number}", nonce), without=("x-wp-nonce",))
    user.see("deleted", reader.get(f"/wp-json/wp/v2/posts/{number}"))


@step
def upload(user):
    """the upload of a picture, its smaller sizes, ranges and conditions; of 20 MB"""
    nonce = _nonce(user)
    picture = png(640, 480)
    how = {**nonce, "Content-Disposition": 'attachment; filename="a.png"', "Content-Type": "image/png"}
    made = user.see("picture", user.post("/wp-json/wp/v2/media", how, picture), without=("x-wp-nonce",))
    expect(made.status == 201, f"no upload: {made.text[:300]}")
    path = made.json()["source_url"].removeprefix(user.base)
    reader = user.another()
    got = reader.get(path)
    expect(got.body == picture, "another picture has come back")
    user.see("get", got, without=("last-modified", "etag"))
    user.see("range", reader.get(path, {"Range": "bytes=100-199"}), without=("last-modified", "etag"))
    user.see("again", reader.get(path, {"If-None-Match": got.one("etag")}), without=("last-modified", "etag"))
    for name, size in sorted(made.json()["media_details"]["sizes"].items()):
        user.see(name, reader.get(size["source_url"].removeprefix(user.base)), without=("last-modified", "etag"))
    large = b"".join(b"%09d\n" % number for number in range(2_000_000))
    how = {**nonce, "Content-Disposition": 'attachment; filename="b.txt"', "Content-Type": "text/plain"}
    made = user.post("/wp-json/wp/v2/media", how, large)
    expect(made.status == 201, f"no upload: {made.text[:300]}")
    got = reader.get(made.json()["source_url"].removeprefix(user.base))
    expect(got.body == large, "another text has come back")
