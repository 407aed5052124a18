"""Users of repositories: one who pushes, and others who only read."""

import random
import threading

from kit import expect, step

ANNA = ("anna", "secret")
DATA = random.Random(7).randbytes(20_000_000)
BRANCHES = 100
# What the server's program says about the moment, and not about the repository.
FIELDS = ("last-modified",)


class _Git:
    """git in one user's directory, with times and names that are the same each time."""

    def __init__(self, user, who=""):
        base = user.base.replace("://", f"://{who}:secret@" if who else "://")
        self.url, self._user = f"{base}/git/one.git", user
        # libcurl takes HTTP/2 where it is offered.
        version = "HTTP/2" if user.protocol == "https/2" else "HTTP/1.1"
        self._options = ["-c", "user.name=Anna", "-c", "user.email=anna@x.test", "-c", f"http.version={version}"]
        self._options += ["-c", "pack.threads=1", "-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false"]

    def __call__(self, *words, directory=None, status=0, environment=None):
        when = {f"GIT_{who}_DATE": "2020-01-01T00:00Z" for who in ("AUTHOR", "COMMITTER")}
        more = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", **when, **(environment or {})}
        return self._user.run("git", *self._options, *words, directory=directory, environment=more, status=status)

    def commit(self, directory, name, data):
        """A file, in a commit of its own."""
        (directory / name).write_bytes(data)
        self("add", ".", directory=directory)
        self("commit", "--quiet", "-m", name, directory=directory)


def _masks(user):
    user.mask(str(user.directory), "{directory}")
    # git says the address with its scheme and its user.
    user.mask(r"https?://(anna:secret@|anna@)?", "(scheme)://")
    user.mask(r"\(scheme\)://\{host\}", "{base}")
    # git shows the text of an error to its user, where that is plain text.
    user.mask(r"remote: 401 Unauthorized\n", "")


@step
def push(user):
    """clone, who may push, a push of 20 MB, one of many small commits across a reload"""
    _masks(user)
    git, nobody, one = _Git(user, "anna"), _Git(user), user.directory / "one"
    git("clone", "--quiet", git.url, "one")
    git("checkout", "--quiet", "-B", "main", directory=one)
    git.commit(one, "first", b"1\n")
    user.note("nobody", nobody("push", nobody.url, "main", directory=one, status=128))
    wrong = git.url.replace("secret", "wrong")
    user.note("wrong", git("push", wrong, "main", directory=one, status=128).replace(wrong, "(address)"))
    git("push", "--quiet", "origin", "main", directory=one)
    git.commit(one, "large", DATA)
    # Longer than http.postBuffer: in chunks, after a short request that asks whether the password is right.
    told = git("push", "origin", "main", directory=one, environment={"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"})
    expect("chunked" in told or user.protocol == "https/2", f"no body in chunks: {told[-2000:]}")
    user.reload()
    # These have nothing of the large file.
    git("checkout", "--quiet", "-b", "small", "HEAD~1", directory=one)
    for number in range(BRANCHES):
        git("commit", "--quiet", "--allow-empty", "-m", f"number {number}", directory=one)
        git("branch", f"branch/é+{number}", directory=one)
    git("push", "--quiet", "--all", "origin", directory=one)
    user.note("branches", git("ls-remote", git.url))
    git("push", "--quiet", "origin", "--delete", "branch/é+7", directory=one)
    git("tag", "v1.0", directory=one)
    git("push", "--quiet", "origin", "v1.0", directory=one)
    git("commit", "--quiet", "--allow-empty", "--amend", "-m", "another", directory=one)
    user.note("no ancestor", git("push", "--quiet", "origin", "small", directory=one, status=1))


@step
def clone(user):
    """clones by both protocols: whole, shallow, deeper, of one branch, partial; requests in gzip"""
    git = _Git(user)
    for version in ("0", "2"):
        trace = {"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"}
        words = ["-c", f"protocol.version={version}", "clone"]
        told = git(*words, git.url, f"whole-{version}", environment=trace).lower()
        expect("content-encoding: gzip" in told, f"no request in gzip: {told[-2000:]}")
        whole = user.directory / f"whole-{version}"
        expect((whole / "large").read_bytes() == DATA, "other bytes come back")
        git(*words, "--quiet", "--depth", "1", "--branch", "small", git.url, f"shallow-{version}")
        shallow = user.directory / f"shallow-{version}"
        user.note(f"shallow {version}", git("log", "--oneline", directory=shallow))
        git("-c", f"protocol.version={version}", "fetch", "--quiet", "--deepen", "3", directory=shallow)
        user.note(f"deeper {version}", git("log", "--oneline", directory=shallow))
        git("-c", f"protocol.version={version}", "fetch", "--quiet", "--unshallow", directory=shallow)
        user.note(f"all {version}", git("rev-list", "--count", "HEAD", directory=shallow))
    git("clone", "--quiet", "--single-branch", "--branch", "branch/é+9", git.url, "single")
    user.note("single", git("log", "--oneline", "-n", "2", directory=user.directory / "single"))
    git("-C", str(user.directory / "single"), "fsck", "--no-dangling")
    user.note("nothing there", git("clone", git.url.replace("one", "none"), "none", status=128))


@step
def names(user):
    """a repository with blanks, `+`, `%` and an umlaut in its name"""
    git, one = _Git(user, "anna"), user.directory / "one"
    url = git.url.replace("one.git", "a%20b+c%20%C3%A9%25.git")
    git("push", "--quiet", url, "v1.0:refs/heads/main", directory=one)
    git("clone", "--quiet", url, "named")
    user.note("log", git("log", "--oneline", "-n", "1", directory=user.directory / "named"))
    user.see("head", user.get("/git/a%20b+c%20%C3%A9%25.git/HEAD"), without=FIELDS)


@step
def together(user):
    """a fetch of 20 MB across a reload, five clones and a push at the same time"""
    git, one = _Git(user, "anna"), user.directory / "one"
    head = git("rev-parse", "main", directory=one).strip()
    want = f"want {head} ofs-delta agent=trials\n"
    body = f"{len(want) + 4:04x}{want}00000009done\n".encode()
    with user.start("POST", "/git/one.git/git-upload-pack", {"Content-Type": "application/x-git-upload-pack-request"}, body) as exchange:
        exchange.sent()
        user.reload()
        pack = user.see("pack", exchange.whole())
    expect(len(pack.body) > len(DATA), f"status {pack.status}, {len(pack.body)} bytes: {pack.body[:200]!r}")
    failures = []

    def work(*words, directory=None):
        try:
            git(*words, directory=directory)
        except Exception as error:  # Told below; a thread has no other way.
            failures.append(error)

    one_branch = ("clone", "--quiet", "--single-branch", "--branch")
    jobs = [(*one_branch, f"branch/é+{number}", git.url, f"many-{number}") for number in range(10, 15)]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    threads.append(threading.Thread(target=work, args=("push", "--quiet", "--force", "origin", "small"), kwargs={"directory": one}))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expect(not failures, str(failures))
    for number in range(10, 15):
        user.note(f"clone {number}", git("rev-list", "--count", "HEAD", directory=user.directory / f"many-{number}"))
    user.note("pushed", git("ls-remote", git.url, "small"))


@step
def by_hand(user):
    """the files of a repository, HEAD, what is refused and what is not there"""
    for path in ("HEAD", "info/refs", "info/refs?service=git-upload-pack", "objects/info/packs", "config", "../one.git/HEAD", "none"):
        user.see(path, user.get(f"/git/one.git/{path}"), without=FIELDS)
    user.see("protocol 2", user.get("/git/one.git/info/refs?service=git-upload-pack", {"Git-Protocol": "version=2"}))
    user.see("a head", user.request("HEAD", "/git/one.git/HEAD"), without=FIELDS)
    user.see("no password", user.get("/git/one.git/info/refs?service=git-receive-pack"), body=False)
    user.see("a password", user.get("/git/one.git/info/refs?service=git-receive-pack", user=ANNA))
    kind = {"Content-Type": "application/x-git-receive-pack-request"}
    user.see("a push without one", user.post("/git/one.git/git-receive-pack", kind, b"0000"), body=False)
    user.see("an empty push", user.post("/git/one.git/git-receive-pack", kind, b"0000", user=ANNA))
    user.see("another type", user.post("/git/one.git/git-upload-pack", {"Content-Type": "text/plain"}, b"0000"))
    user.see("no pack", user.post("/git/one.git/git-receive-pack", kind, b"nonsense", user=ANNA), body=False)
    user.see("PUT", user.request("PUT", "/git/one.git/HEAD", body=b"x"))
