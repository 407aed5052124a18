"""A reader who comments on a page of https://blog.test."""

from kit import step

BLOG = {"Origin": "https://blog.test", "Referer": "https://blog.test/a"}


@step
def embed(user):
    """scripts, demo page, counts, CORS, errors"""
    for path in ("/isso/js/embed.min.js", "/isso/js/embed.dev.js", "/isso/css/isso.css", "/isso/demo", "/isso/info", "/isso/missing"):
        user.see(path, user.get(path), without=("etag", "last-modified", "expires"))
    user.see("count", user.post("/isso/count", BLOG, json=["/a", "/b"]))
    user.see("CORS", user.request("OPTIONS", "/isso/new?uri=%2Fa", {**BLOG, "Access-Control-Request-Method": "POST"}))


@step
def comment(user):
    """comments, answers, cookies, likes, changes, a feed, across a reload"""
    user.mask(r'"(created|modified)": ?[\d.]+', '"time": 0')
    user.mask(r'"(created|modified)":[\d.]+', '"time":0')
    user.mask(r"(isso-)?\d+=[^;]+;", "(cookie);")
    # Isso says it where it sees that it is https.
    user.mask(r"Secure; Path=/; SameSite=None", "Path=/; SameSite=Lax")
    user.mask(r"20\d\d-\d\d-\d\dT[\d:.]+Z?", "(time)")
    without = ("x-set-cookie", "last-modified", "etag", "expires")
    page = "/isso/new?uri=%2Fa"
    words = {"author": "Anna é", "email": "anna@blog.test", "text": "Ein *Kommentar* <script>", "parent": None, "title": "A"}
    user.see("new", user.post(page, BLOG, json=words), without=without)
    user.see("too short", user.post(page, BLOG, json={**words, "text": "x"}), without=without)
    user.reload()
    user.see("answer", user.post(page, BLOG, json={**words, "parent": 1, "text": "Antwort"}), without=without)
    user.see("all", user.get("/isso/?uri=%2Fa", BLOG), without=without)
    user.see("edit", user.request("PUT", "/isso/id/1", BLOG, json={**words, "text": "Anders"}), without=without)
    other = user.another()
    user.see("edit by another", other.request("PUT", "/isso/id/1", BLOG, json=words), without=without)
    user.see("like", other.post("/isso/id/1/like", BLOG), without=without)
    user.see("preview", user.post("/isso/preview", BLOG, json={"text": "*x*"}), without=without)
    user.see("count", user.post("/isso/count", BLOG, json=["/a", "/b"]), without=without)
    user.see("delete", user.request("DELETE", "/isso/id/2", BLOG), without=without)
