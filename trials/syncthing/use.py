"""A user who looks at the page of Syncthing, and the page's own requests."""

from pathlib import Path

from kit import expect, step

KEY = {"X-API-Key": "secret"}
OWN = ("x-syncthing-id", "x-syncthing-version", "last-modified", "etag", "expires", "set-cookie")


def _masks(user):
    user.mask(r"\b[A-Z2-7]{7}(-[A-Z2-7]{7}){7}\b", "(device)")
    user.mask(r"\b[A-Z2-7]{7}\b", "(device)")
    user.mask(r"CSRF-Token-[A-Z2-7()a-z]+", "CSRF-Token")


@step
def pages(user):
    """the page, scripts, translations, languages, who may not, errors"""
    _masks(user)
    paths = ("/", "/assets/lang/lang-de.json", "/syncthing/app.js", "/vendor/jquery/jquery-2.2.2.js", "/missing", "/rest/missing")
    for path in paths:
        user.see(path, user.get(path), without=OWN)
    user.see("gzip", user.get("/syncthing/app.js", {"Accept-Encoding": "gzip"}), without=OWN)
    user.see("without a key", user.another().get("/rest/system/status"), without=OWN)
    user.see("ping", user.get("/rest/system/ping", KEY), without=OWN)
    # The page's own requests have a token from a cookie.
    name, token = next((name, value) for name, value in user.client.cookies().items() if name.startswith("CSRF-Token"))
    user.see("token", user.get("/rest/system/ping", {f"X-{name}": token}), without=OWN)
    user.see("CORS", user.request("OPTIONS", "/rest/system/ping", {"Origin": "https://a.test"}), without=OWN)


@step
def folder(user):
    """a folder with 300 files: added, scanned, listed, changed, removed, events by long polling across a reload"""
    place = Path(user.setup["data"], "folder")
    place.mkdir(exist_ok=True)
    (place / ".stfolder").mkdir()
    for number in range(300):
        (place / f"file-{number:03}").write_text("é" * number)
    # Events of these kinds are kept from here on.
    events = "/rest/events?events=ConfigSaved"
    user.get(f"{events}&timeout=1", KEY)
    words = {"id": "own", "label": "é", "path": str(place), "rescanIntervalS": 0, "fsWatcherEnabled": False}
    made = user.post("/rest/config/folders", KEY, json=words)
    expect(made.status == 200, f"no folder: {made.status} {made.text}")

    def scanned():
        return user.get("/rest/db/status?folder=own", KEY).json().get("localFiles") == 300

    user.until("a scan of 300 files", scanned)
    entries = user.get("/rest/db/browse?folder=own", KEY).json()
    user.note("names", sorted(entry["name"] for entry in entries))
    saved = user.get(f"{events}&since=0&timeout=30", KEY).json()
    user.note("events", sorted({event["type"] for event in saved}))
    with user.start("GET", f"{events}&since={saved[-1]['id']}&timeout=30", KEY) as exchange:
        # It comes at once, so that there is no second request.
        user.see("head", exchange.head(), without=OWN, body=False)
        user.reload()
        other = user.another()
        changed = other.request("PATCH", "/rest/config/folders/own", KEY, json={"label": "other"})
        expect(changed.status == 200, f"not changed: {changed.status} {changed.text}")
        user.note("event", [event["type"] for event in exchange.whole().json()])
    user.note("label", user.get("/rest/config/folders/own", KEY).json()["label"])
    (place / "later").write_text("later")
    user.see("scan", user.post("/rest/db/scan?folder=own", KEY), without=OWN)
    user.note("later", user.get("/rest/db/file?folder=own&file=later", KEY).json()["local"]["size"])
    user.see("no file", user.get("/rest/db/file?folder=own&file=missing", KEY), without=OWN)
    user.see("ignores", user.post("/rest/db/ignores?folder=own", KEY, json={"ignore": ["*.tmp", "é"]}), without=OWN)
    user.see("removed", user.request("DELETE", "/rest/config/folders/own", KEY), without=OWN)
    user.see("gone", user.get("/rest/config/folders/own", KEY), without=OWN)
    user.see("wrong", user.post("/rest/config/folders", KEY, body=b"{"), without=OWN)


@step
def names(user):
    """`localhost`, and a name that Syncthing refuses"""
    port = user.host.rpartition(":")[2]
    user.see("localhost", user.get("/", {"Host": f"localhost:{port}"}), without=OWN)
    refused = user.see("another name", user.get("/", {"Host": "sync.test"}), without=OWN)
    expect(refused.status == 403, f"any name is taken: {refused.status}")


@step
def waiting(user):
    """long polling that ends without an event, and one whose reader leaves"""
    user.see("nothing", user.get("/rest/events?events=DeviceRejected&timeout=2&since=0", KEY), without=OWN)
    with user.start("GET", "/rest/events?events=DeviceRejected&timeout=60&since=0", KEY) as exchange:
        exchange.head()
    user.see("afterwards", user.get("/rest/system/ping", KEY), without=OWN)


@step
def in_chromium(user):
    """its page in Chromium, which receives across a reload what others change"""
    page = user.browser()
    page.open("/")
    page.see("This Device")
    user.reload()
    words = {"id": "seen", "label": "made by another user", "path": str(Path(user.setup["data"], "seen"))}
    made = user.post("/rest/config/folders", KEY, json=words)
    expect(made.status == 200, f"no folder: {made.status} {made.text}")
    page.see("made by another user")
    # It asks some time after it can be seen, and gets 503: Debian's does not upgrade itself.
    user.until("the page's question for upgrades", lambda: any(path == "/rest/system/upgrade" for path, _, _ in page.responses()))
    page.note()
