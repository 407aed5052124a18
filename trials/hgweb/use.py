"""A user who works on a repository, with hg and a browser."""

import random
import sys
from pathlib import Path

from kit import expect, step

HG = Path(sys.executable).parent / "hg"


def _hg(user, *words, directory=None):
    trust = f"web.cacerts={user.authority}"
    return user.run(HG, "--config", trust, "--config", "ui.username=anna", *words, directory=directory)


@step
def pages(user):
    """pages, raw files, archives, static files, errors"""
    user.mask(r"\d+ (seconds|minutes|hours) ago|less than a second ago|just now", "(a while) ago")
    user.mask(r"(Sun|Mon|Tue|Wed|Thu|Fri|Sat), \d\d \w{3} 20\d\d [\d:]{8} [+-]\d{4}", "(time)")
    for path in (
        "/", "/repository", "/repository/", "/repository/file/tip/README", "/repository/raw-file/tip/README", "/repository/log",
        "/repository/rev/tip", "/repository/atom-log", "/repository/missing", "/missing", "/static/style-gitweb.css",
        "/repository?cmd=capabilities", "/repository?cmd=heads", "/repository/static/mercurial.js",
    ):
        user.see(path, user.get(path), without=("etag", "last-modified"))
    user.see("archive", user.get("/repository/archive/tip.zip"), body=False, without=("etag",))


@step
def push(user):
    """clone, a push of 20 MB across a reload, pull by another user, a push that is refused"""
    # hg does not look for addresses in certificates.
    url = user.base.replace("127.0.0.1", "localhost") + "/repository"
    mine, other = Path(user.directory, "mine"), Path(user.directory, "other")
    _hg(user, "clone", url, mine)
    data = random.Random(1).randbytes(20_000_000)
    (mine / "large").write_bytes(data)
    _hg(user, "commit", "--addremove", "-m", "large", "-d", "0 0", directory=mine)
    _hg(user, "push", directory=mine)
    _hg(user, "clone", url, other)
    expect((other / "large").read_bytes() == data, "the file is another one")
    user.reload()
    (mine / "small").write_text("é\n")
    _hg(user, "commit", "--addremove", "-m", "small é", "-d", "0 0", directory=mine)
    user.note("push", _hg(user, "push", directory=mine))
    user.note("incoming", _hg(user, "incoming", "--template", "{desc} {node}\n", directory=other))
    _hg(user, "pull", "--update", directory=other)
    (other / "one").write_text("1")
    _hg(user, "commit", "--addremove", "-m", "one", "-d", "0 0", directory=other)
    _hg(user, "push", directory=other)
    (mine / "two").write_text("2")
    _hg(user, "commit", "--addremove", "-m", "two", "-d", "0 0", directory=mine)
    words = [HG, "--config", f"web.cacerts={user.authority}", "push"]
    user.note("a second head", user.run(*words, directory=mine, status=255))
    user.see("log", user.get("/repository/raw-log"), without=("etag",))
