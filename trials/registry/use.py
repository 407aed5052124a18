"""Users of a registry: skopeo, and what other clients ask for by HTTP (the specification of distribution)."""

import base64
import json

from image import layer, random_bytes, sha256, write
from kit import expect, step

_LOGIN = {"Authorization": "Basic " + base64.b64encode(b"trial:maitred").decode()}
_OCI = "application/vnd.oci.image.manifest.v1+json"
_LARGE = random_bytes(1, 40_000_000)
_BLOB = random_bytes(2, 12_000_000)


def _mask(user):
    user.mask(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "(id)")
    user.mask(r"_state=[\w=%-]+", "_state=(state)")
    # Where the changed state of an upload is no JSON any more.
    user.mask(r'"detail":\d+', '"detail":(offset)')
    user.mask(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "(time)")


def _skopeo(user, action, *words, **how):
    """Each side that is this registry is trusted by its certificate, if it has one."""
    here = f"docker://{user.host}"
    verify = "true" if user.base.startswith("https") else "false"
    sides = ("--src", "--dest") if action == "copy" else ("",)
    options = []
    for side, word in zip(sides, words):
        if word.startswith(here):
            prefix = f"{side}-" if side else "--"
            options += [f"{prefix}tls-verify={verify}", f"{prefix}creds=trial:maitred"]
    return user.run("skopeo", "--insecure-policy", action, *options, *words, **how)


def _place(user, response):
    """The path where an upload goes on. The address has to be the one by which the client has come."""
    location = response.one("location")
    expect(location.startswith(f"{user.base}/v2/"), f"an upload goes on at {location}")
    return location.removeprefix(user.base)


def _begin(user, name, query=""):
    return user.post(f"/v2/{name}/blobs/uploads/{query}", {**_LOGIN, "Content-Length": "0"}, b"")


def _push(user, name, data):
    """A blob in one request; its digest."""
    place = _place(user, _begin(user, name))
    digest = sha256(data)
    fields = {**_LOGIN, "Content-Type": "application/octet-stream"}
    made = user.request("PUT", f"{place}&digest={digest}", fields, data)
    expect(made.status == 201, f"no blob: {made.status} {made.text}")
    expect(made.one("location") == f"{user.base}/v2/{name}/blobs/{digest}", f"it is at {made.one('location')}")
    return digest


@step
def skopeo(user):
    """skopeo: an image with a layer of 40 MB in, across a reload; inspected, copied to another name and out, listed, deleted"""
    _mask(user)
    layers = [layer("one", b"one\n" * 1000), layer("large", _LARGE), layer("é", random_bytes(3, 2_000_000))]
    digests = write(user.directory / "image", layers, "first")
    here = f"docker://{user.host}/trial/image"
    _skopeo(user, "copy", "oci:image:first", f"{here}:first")
    user.reload()
    _skopeo(user, "copy", "oci:image:first", f"{here}:second")
    found = json.loads(_skopeo(user, "inspect", f"{here}:first"))
    expect(found["Layers"] == digests, f"other layers: {found['Layers']}")
    user.note("inspect", sorted(found))
    # The blobs are there already under the other name: they are mounted.
    _skopeo(user, "copy", f"{here}:first", f"docker://{user.host}/other/copy:first")
    _skopeo(user, "copy", f"docker://{user.host}/other/copy:first", "dir:out")
    for digest in digests:
        data = (user.directory / "out" / digest.removeprefix("sha256:")).read_bytes()
        expect(sha256(data) == digest, f"another layer than {digest}")
    user.note("tags", json.loads(_skopeo(user, "list-tags", here))["Tags"])
    _skopeo(user, "delete", f"docker://{user.host}/other/copy:first")
    user.note("deleted", "manifest unknown" in _skopeo(user, "inspect", f"docker://{user.host}/other/copy:first", status=1))
    user.note("tags of the copy", user.get("/v2/other/copy/tags/list", _LOGIN).text)


@step
def questions(user):
    """who has no login; the catalog, tags in pages, what is not there, what is no name, methods"""
    _mask(user)
    user.see("no login", user.get("/v2/"))
    user.see("no login, upload", user.post("/v2/trial/image/blobs/uploads/", body=b"x" * 1000))
    user.see("login", user.get("/v2/", _LOGIN))
    user.see("without a slash", user.get("/v2", _LOGIN))
    user.see("root", user.get("/", _LOGIN))
    user.see("catalog", user.get("/v2/_catalog", _LOGIN))
    page = user.see("catalog, a page", user.get("/v2/_catalog?n=1", _LOGIN))
    user.see("catalog, the next", user.get(page.one("link").partition("<")[2].partition(">")[0], _LOGIN))
    user.see("tags", user.get("/v2/trial/image/tags/list", _LOGIN))
    user.see("no such name", user.get("/v2/none/tags/list", _LOGIN))
    user.see("no such manifest", user.get("/v2/trial/image/manifests/none", _LOGIN))
    user.see("no name", user.get("/v2/TRIAL/manifests/first", _LOGIN))
    user.see("wrong digest", user.get("/v2/trial/image/blobs/sha256:00", _LOGIN))
    user.see("no such blob", user.get(f"/v2/trial/image/blobs/sha256:{'0' * 64}", _LOGIN))
    user.see("method", user.request("DELETE", "/v2/", _LOGIN))
    user.see("no such upload", user.get("/v2/trial/image/blobs/uploads/00000000-0000-0000-0000-000000000000", _LOGIN))


@step
def manifests(user):
    """manifests by tag and by digest, their types, HEAD, conditions; a new tag, a broken one, one deleted"""
    _mask(user)
    first = user.see("by tag", user.get("/v2/trial/image/manifests/first", {**_LOGIN, "Accept": _OCI}))
    digest = first.one("docker-content-digest")
    expect(digest == sha256(first.body), f"it has the digest {digest}")
    user.see("by digest", user.get(f"/v2/trial/image/manifests/{digest}", {**_LOGIN, "Accept": _OCI}))
    user.see("another type", user.get("/v2/trial/image/manifests/first", {**_LOGIN, "Accept": "application/json"}))
    user.see("HEAD", user.request("HEAD", "/v2/trial/image/manifests/first", {**_LOGIN, "Accept": _OCI}))
    known = {**_LOGIN, "Accept": _OCI, "If-None-Match": f'"{digest}"'}
    user.see("not modified", user.get("/v2/trial/image/manifests/first", known))
    fields = {**_LOGIN, "Content-Type": _OCI}
    user.see("a new tag", user.request("PUT", "/v2/trial/image/manifests/third-1.0_e", fields, first.body))
    user.see("broken", user.request("PUT", "/v2/trial/image/manifests/broken", fields, b"{"))
    unknown = first.body.replace(b"sha256:", b"sha256:f", 1)
    user.see("unknown parts", user.request("PUT", "/v2/trial/image/manifests/unknown", fields, unknown))
    changed = user.see("another", user.request("PUT", "/v2/trial/image/manifests/another", fields, first.body + b"\n"))
    user.see("deleted", user.request("DELETE", f"/v2/trial/image/manifests/{changed.one('docker-content-digest')}", _LOGIN))
    user.see("is gone", user.get("/v2/trial/image/manifests/another", {**_LOGIN, "Accept": _OCI}))


@step
def uploads(user):
    """uploads: in one request, in chunks, of unknown length, across a reload; wrong digests and states; given up"""
    _mask(user)
    fields = {**_LOGIN, "Content-Type": "application/octet-stream"}
    user.note("one request", _push(user, "trial/one", _BLOB))
    begun = user.see("begun", _begin(user, "trial/chunks"))
    place, at, part = _place(user, begun), 0, 5_000_000
    for number in range(3):
        data = _BLOB[at : at + part]
        ranged = {**fields, "Content-Range": f"{at}-{at + len(data) - 1}"}
        if number == 1:
            # In pieces whose end is not announced, and Maitred's worker process changes meanwhile.
            ranged.pop("Content-Range")
            with user.start("PATCH", place, ranged, _across(user, data)) as exchange:
                taken = exchange.whole()
        else:
            taken = user.request("PATCH", place, ranged, data)
        user.see(f"chunk {number}", taken)
        at += len(data)
        place = _place(user, taken)
        expect(taken.one("range") == f"0-{at - 1}", f"it has {taken.one('range')}")
    state = user.see("state", user.get(place, _LOGIN))
    expect(state.status == 204, f"the state: {state.status} {state.text}")
    digest = sha256(_BLOB)
    user.see("complete", user.request("PUT", f"{place}&digest={digest}", fields, b""))
    expect(user.get(f"/v2/trial/chunks/blobs/{digest}", _LOGIN).body == _BLOB, "other bytes come back")
    place = _place(user, _begin(user, "trial/chunks"))
    user.see("wrong digest", user.request("PUT", f"{place}&digest=sha256:{'0' * 64}", fields, b"x" * 2_000_000))
    place = _place(user, _begin(user, "trial/chunks"))
    user.see("no digest", user.request("PUT", place, fields, b"x"))
    place = _place(user, _begin(user, "trial/chunks"))
    user.see("wrong state", user.request("PATCH", place.replace("_state=", "_state=x"), fields, b"x" * 2_000_000))
    place = _place(user, _begin(user, "trial/chunks"))
    user.see("given up", user.request("DELETE", place, _LOGIN))
    user.see("is gone", user.get(place, _LOGIN))


def _across(user, data):
    """The pieces of a body. In the middle there is a reload."""
    for at in range(0, len(data), 50_000):
        if at == 2_000_000:
            user.reload()
        yield data[at : at + 50_000]


@step
def leaving(user):
    """a client that goes away in the middle of an upload; the next one is not disturbed"""
    fields = {**_LOGIN, "Content-Type": "application/octet-stream"}
    place = _place(user, _begin(user, "trial/left"))
    sent = []

    def pieces():
        while True:
            sent.append(50_000)
            yield b"x" * 50_000

    other = user.another()
    with other.start("PATCH", place, fields, pieces()) as exchange:
        other.client.drive(lambda: len(sent) > 100, "five megabytes of an upload")
        expect(exchange.end is None, f"it has ended: {exchange.end}")
    other.close()
    stored = user.directory.parent / "data" / "registry" / "docker" / "registry" / "v2" / "repositories" / "trial" / "left"
    user.until("a file that is there", lambda: any(each.stat().st_size for each in stored.glob("_uploads/*/data")))
    user.note("the next one", _push(user, "trial/left", b"x" * 1000))


@step
def blobs(user):
    """blobs: HEAD, ranges, conditions, mounted from another name, deleted; twelve at once across a reload"""
    _mask(user)
    digest = _push(user, "trial/one", _BLOB)
    path = f"/v2/trial/one/blobs/{digest}"
    user.see("whole", user.get(path, _LOGIN))
    user.see("HEAD", user.request("HEAD", path, _LOGIN))
    for asked in ("0-9", "100-", "-100", f"{len(_BLOB) - 1}-", f"{len(_BLOB)}-", "5-1", "0-0"):
        user.see(f"range {asked}", user.get(path, {**_LOGIN, "Range": f"bytes={asked}"}))
    part = user.get(path, {**_LOGIN, "Range": "bytes=1000-9999999"})
    expect(part.status == 206 and part.body == _BLOB[1000:10_000_000], "another part than was asked for")
    user.see("not modified", user.get(path, {**_LOGIN, "If-None-Match": f'"{digest}"'}))
    user.see("modified", user.get(path, {**_LOGIN, "If-None-Match": '"other"'}), body=False)
    mounted = user.see("mounted", _begin(user, "trial/mounted", f"?mount={digest}&from=trial/one"))
    expect(mounted.status == 201, f"not mounted: {mounted.status} {mounted.text}")
    user.see("at the other name", user.request("HEAD", f"/v2/trial/mounted/blobs/{digest}", _LOGIN))
    user.see("not to be mounted", _begin(user, "trial/mounted", f"?mount=sha256:{'0' * 64}&from=trial/one"))
    others = [user.another() for _ in range(12)]
    asked = [each.start("GET", path, _LOGIN) for each in others]
    for each in asked:
        each.head()
    user.reload()
    user.note("twelve at once", [sha256(each.whole().body) == digest for each in asked])
    for each in others:
        each.close()
    user.see("deleted", user.request("DELETE", f"/v2/trial/mounted/blobs/{digest}", _LOGIN))
    user.see("is gone", user.get(f"/v2/trial/mounted/blobs/{digest}", _LOGIN))
    user.see("is still there", user.request("HEAD", path, _LOGIN))
