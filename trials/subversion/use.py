"""Repositories, by the real clients of Subversion and git, and programs of CGI."""

import random

from kit import expect, step

_DATA = random.Random(14).randbytes(20_000_000)
_LOCALE = {"LC_ALL": "C.UTF-8"}
_TIMES = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( [+]0000 \([^)]*\))?"


def _svn(user, *words, directory=None, sort=False):
    options = ["--non-interactive", "--username", "anna", "--password", "secret", "--no-auth-cache"]
    if user.base.startswith("https"):
        options.append("--trust-server-cert-failures=unknown-ca,cn-mismatch,other")
    text = user.run("svn", words[0], *options, *words[1:], directory=directory, environment=_LOCALE)
    # Files come in the order of the directory, or of several connections.
    return sorted(text.splitlines()) if sort else text


@step
def svn(user):
    """svn: check out, commit 60 files and 20 MB across a reload, log, copy, move, lock, properties, differences; its pages"""
    user.mask(_TIMES, "(time)")
    user.mask(str(user.directory), "{directory}")
    user.mask(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "(UUID)")
    url, one = f"{user.base}/svn", user.directory / "one"
    user.note("check out", _svn(user, "checkout", url, "one"))
    (one / "big").write_bytes(_DATA)
    (one / "a space é").write_text("a\n")
    (one / "many").mkdir()
    for number in range(60):
        (one / "many" / f"file{number}").write_text(f"{number}\n" * 50)
    user.note("add", sorted(user.run("svn", "add", "--force", ".", directory=one, environment=_LOCALE).splitlines()))
    user.note("commit", _svn(user, "commit", "-m", "one é", directory=one, sort=True))
    user.reload()
    (one / "big").write_bytes(_DATA[:15_000_000] + _DATA[:5_000_000])
    user.note("commit again", _svn(user, "commit", "-m", "two", directory=one))
    user.note("check out again", _svn(user, "checkout", url, "two", sort=True))
    expect((user.directory / "two" / "big").read_bytes() == (one / "big").read_bytes(), "other bytes come back")
    user.note("copy", _svn(user, "copy", "-m", "copied", f"{url}/many", f"{url}/copied"))
    user.note("move", _svn(user, "move", "-m", "moved", f"{url}/copied", f"{url}/moved"))
    user.note("update", _svn(user, "update", directory=one, sort=True))
    user.note("lock", _svn(user, "lock", "-m", "mine", "big", directory=one))
    user.note("unlock", _svn(user, "unlock", "big", directory=one))
    user.note("log", _svn(user, "log", "-v", url))
    user.note("differences", len(_svn(user, "diff", "-r0:1", f"{url}/many")))
    user.note("blame", _svn(user, "blame", f"{url}/a%20space%20%C3%A9"))
    for path in ("/svn/", "/svn/many/file1", "/svn/none"):
        user.see(path, user.get(path))
    user.see("a range", user.get("/svn/big", {"Range": "bytes=100-199"}))
    user.see("writing is refused", user.request("PUT", "/svn/new", body=b"x"))


@step
def git(user):
    """git by git-http-backend: push of 20 MB across a reload, clone, shallow clone, fetch, what is not there"""
    user.mask(r"\b[0-9a-f]{7,40}\b", "(hash)")
    user.mask(str(user.directory), "{directory}")
    when = {f"GIT_{who}_DATE": "2020-01-01T00:00Z" for who in ("AUTHOR", "COMMITTER")}
    url, one = f"{user.base}/git/one.git", user.directory / "git-one"

    def run(*words, directory=None, status=0):
        who = ["-c", "user.name=Anna", "-c", "user.email=anna@x.test", "-c", "pack.threads=1", "-c", "init.defaultBranch=main"]
        return user.run("git", *who, *words, directory=directory, environment={**when, "GIT_TERMINAL_PROMPT": "0"}, status=status)

    run("clone", "--quiet", url, "git-one")
    run("checkout", "--quiet", "-B", "main", directory=one)
    (one / "big").write_bytes(_DATA)
    run("add", ".", directory=one)
    run("commit", "--quiet", "-m", "one", directory=one)
    run("push", "--quiet", "origin", "main", directory=one)
    user.reload()
    (one / "small").write_text("x\n")
    run("add", ".", directory=one)
    run("commit", "--quiet", "-m", "two", directory=one)
    # In pieces of 1000 bytes: a request whose body comes in chunks.
    run("-c", "http.postBuffer=1000", "push", "--quiet", "origin", "main", directory=one)
    run("clone", "--quiet", "--branch", "main", url, "git-two")
    expect((user.directory / "git-two" / "big").read_bytes() == _DATA, "other bytes come back")
    user.note("log", run("log", "--oneline", directory=user.directory / "git-two"))
    run("clone", "--quiet", "--depth", "1", "--branch", "main", url, "git-three")
    run("-c", "protocol.version=0", "fetch", "--quiet", directory=one)
    user.note("branches", run("ls-remote", url))
    user.note("none", run("clone", "--quiet", f"{user.base}/git/none.git", "none", status=128))
    user.see("a file of the repository", user.get("/git/one.git/HEAD"))


@step
def cgit(user):
    """cgit: lists, log, trees, commits, a feed, a snapshot of 20 MB"""
    user.mask(r"\b[0-9a-f]{7,40}\b", "(hash)")
    user.mask(r"\d+ (min|sec|hour)[^<]*", "(ago)")
    user.mask(r"/tmp/trial-[^/]*", "{sockets}")
    user.mask(r"generated by[^\n]*", "(made)")
    times = ("last-modified", "expires", "etag")
    for path in ("", "one.git/", "one.git/log/", "one.git/tree/", "one.git/plain/small", "one.git/commit/", "one.git/atom/", "none/"):
        user.see(path, user.get(f"/cgit/{path}"), times)
    user.see("styles", user.get("/cgit-css/cgit.css"))
    user.see("a file", user.get("/cgit/one.git/plain/big"), times)
    snapshot = user.get("/cgit/one.git/snapshot/one-main.tar.gz")
    user.note("a snapshot", (snapshot.status, snapshot.one("content-type"), snapshot.end))
    expect(len(snapshot.body) > len(_DATA), f"a snapshot of {len(snapshot.body)} bytes")


@step
def cgi(user):
    """CGI: the environment, a status, redirects inside, a head of its own, errors, 20 MB up, unread bodies"""
    for path in ("environment/a%20path/%C3%A9?query=1&x=%20", "status", "elsewhere", "nph-own", "broken", "none"):
        user.see(path, user.get(f"/cgi/{path}"))
    user.see("HEAD", user.request("HEAD", "/cgi/status"))
    kind = {"Content-Type": "text/plain"}
    user.see("20 MB", user.post("/cgi/environment", kind, _DATA))
    user.reload()
    pieces = user.post("/cgi/environment", kind, iter([b"x" * 1000] * 100))
    expect(pieces.text.endswith("\n100000\n"), pieces.text)
    user.see("a body that is not read", user.post("/cgi/status", kind, _DATA[:3_000_000]))
    user.see("after it", user.get("/cgi/status"))


@step
def dav(user):
    """mod_dav: 20 MB up, collections, move, copy, lock, properties, ranges"""
    user.mask(r"opaquelocktoken:[0-9a-f-]+", "(token)")
    user.mask(_TIMES, "(time)")
    user.mask(r"\w{3}, \d\d \w{3} \d{4} [0-9:]+ GMT", "(time)")
    user.mask(r"getetag>[^<]*<", "getetag><")
    # In the order of a table of the process's.
    user.mask(r"( xmlns:lp\d=\"[^\"]*\")+", "")
    user.mask(r"\blp\d:", "")
    times = ("etag", "last-modified")
    user.see("20 MB", user.request("PUT", "/dav/a%20file", body=_DATA))
    user.see("a collection", user.request("MKCOL", "/dav/one"))
    user.see("move", user.request("MOVE", "/dav/a%20file", {"Destination": f"{user.base}/dav/one/file"}))
    user.see("a range", user.get("/dav/one/file", {"Range": "bytes=5-9"}), times)
    user.see("copy", user.request("COPY", "/dav/one/", {"Destination": f"{user.base}/dav/two/"}))
    user.see("properties", user.request("PROPFIND", "/dav/two/", {"Depth": "0"}, b""))
    lock = b'<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
    user.see("lock", user.request("LOCK", "/dav/two/file", {"Content-Type": "text/xml"}, lock), ("lock-token",))
    user.see("locked", user.request("PUT", "/dav/two/file", body=b"x"))
    user.see("delete", user.request("DELETE", "/dav/one/"))
    user.see("not there", user.get("/dav/one/file"))
    user.see("options", user.request("OPTIONS", "/dav/"))
