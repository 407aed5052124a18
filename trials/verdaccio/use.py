"""A user who publishes packages with npm, one who installs them, and one who looks at the pages."""

import json
import os
import pty
import subprocess

from kit import expect, step


def _words(user, *words):
    """npm, with a cache of its own. It does not look at NODE_EXTRA_CA_CERTS where its settings name another file."""
    more = ["--fetch-retries=0", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=notice", "--color=false"]
    return ["npm", *words, f"--registry={user.base}/", f"--cache={user.directory / 'cache'}", f"--cafile={user.authority}", *more]


def _npm(user, *words, directory=None, status=0):
    return user.run(*_words(user, *words), directory=directory, status=status)


def _add_user(user):
    """`npm adduser` asks at a terminal."""
    parent, child = pty.openpty()
    words = _words(user, "adduser", "--auth-type=legacy")
    with subprocess.Popen(words, cwd=user.directory, stdin=child, stdout=child, stderr=child, close_fds=True) as process:
        os.close(child)
        said = b""
        answers = [(b"Username:", b"anna"), (b"Password:", b"of-the-inn-7"), (b"Email", b"anna@example.org")]
        try:
            while piece := os.read(parent, 4096):
                said += piece
                if answers and answers[0][0] in said:
                    os.write(parent, answers.pop(0)[1] + b"\n")
        except OSError:
            # The terminal's other end is closed: npm is done.
            pass
        os.close(parent)
        expect(process.wait(30) == 0, f"npm adduser: {said.decode('utf-8', 'replace')}")


def _package(user, version):
    """A package with 5 MB that cannot be compressed."""
    folder = user.directory / "package"
    folder.mkdir(exist_ok=True)
    about = {"name": "@trial/thing", "version": version, "description": "A thing", "main": "index.js", "keywords": ["trial"]}
    (folder / "package.json").write_text(json.dumps(about))
    (folder / "index.js").write_text(f"module.exports = '{version}';\n")
    (folder / "README.md").write_text("# A thing for a trial\n")
    (folder / "data.bin").write_bytes(os.urandom(5_000_000))
    return folder


@step
def publish(user):
    """npm adduser, whoami, publish (5 MB) across a reload, a version that is there already"""
    _add_user(user)
    user.note("whoami", _npm(user, "whoami"))
    folder = _package(user, "1.0.0")
    expect("+ @trial/thing@1.0.0" in _npm(user, "publish", directory=folder), "npm does not say that it is published")
    user.reload()
    expect("+ @trial/thing@1.1.0" in _npm(user, "publish", directory=_package(user, "1.1.0")), "the second version")
    told = _npm(user, "publish", directory=folder, status=1)
    user.note("twice", [line for line in told.splitlines() if " code E" in line])
    _npm(user, "dist-tag", "add", "@trial/thing@1.0.0", "old")
    user.note("tags", sorted(_npm(user, "dist-tag", "ls", "@trial/thing").splitlines()))


@step
def install(user):
    """npm view, search, install and ci by another user; a version that is not there"""
    user.note("view", _npm(user, "view", "@trial/thing", "versions", "dist-tags", "--json"))
    user.note("found", "@trial/thing" in _npm(user, "search", "thing"))
    there = user.directory / "there"
    there.mkdir()
    (there / "package.json").write_text('{"name": "there", "version": "1.0.0", "dependencies": {"@trial/thing": "^1.0.0"}}')
    _npm(user, "install", directory=there)
    user.note("runs", user.run("node", "-p", "require('@trial/thing')", directory=there))
    _npm(user, "ci", directory=there)
    user.note("lock", json.loads((there / "package-lock.json").read_text())["packages"]["node_modules/@trial/thing"]["resolved"])
    told = _npm(user, "install", "@trial/thing@9", directory=there, status=1)
    user.note("no such version", [line for line in told.splitlines() if " code E" in line])


@step
def http(user):
    """the same by HTTP: metadata with conditions and gzip, a tarball, HEAD, errors"""
    user.mask(r'"(shasum|integrity|time|created|modified|1\.\d\.0|_id|_rev|_nodeVersion|_npmVersion)":\s*"[^"]*"', r'"\1": "…"')
    fields = ("etag", "last-modified", "content-length", "x-ratelimit-reset")
    whole = user.see("metadata", user.get("/@trial%2fthing"), without=fields)
    user.see("not changed", user.get("/@trial%2fthing", {"If-None-Match": whole.one("etag")}), without=fields)
    user.see("compressed", user.get("/@trial%2fthing", {"Accept-Encoding": "gzip"}), without=fields, body=False)
    tarball = user.get("/@trial/thing/-/thing-1.1.0.tgz")
    user.see("tarball", tarball, without=fields, body=False)
    expect(len(tarball.body) > 5_000_000, f"only {len(tarball.body)} bytes")
    user.see("its head", user.request("HEAD", "/@trial/thing/-/thing-1.1.0.tgz"), without=fields)
    user.see("nothing", user.get("/nothing"))
    user.see("no account", user.request("PUT", "/other", json={"name": "other"}), without=fields)
    wrong = {"name": "anna", "password": "wrong"}
    user.see("wrong password", user.request("PUT", "/-/user/org.couchdb.user:anna", json=wrong), without=fields)


@step
def page(user):
    """the pages in Chromium: the list, a package"""
    browser = user.browser()
    browser.open("/")
    browser.see("@trial/thing")
    browser.open("/-/web/detail/@trial/thing")
    browser.see("A thing for a trial")
    browser.note(files=5)


@step
def unpublish(user):
    """npm unpublish, and what is there then"""
    _npm(user, "unpublish", "@trial/thing@1.1.0", "--force")
    user.note("left", _npm(user, "view", "@trial/thing", "versions", "--json"))
