"""Members of rooms on one server, and one of another server that federates with it."""

import json
import random
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from kit import expect, png, step

CLIENT = "/_matrix/client/v3"
PASSWORD = "a long secret of Anna"
DATA = random.Random(9).randbytes(20_000_000)
# Rooms' local names, as they are before they are encoded.
ALIASES = ("plain", "a/b", "a#b?c&d", "x+y%2F100%", "Äö€", "a//b", "../up", "a;b=c,d@e")
state = {}


def _quoted(text):
    return urllib.parse.quote(text, safe="")


def _masks(user):
    for pattern, by in (
        (r"\$[\w-]{43}", "$(event)"),
        (r"![\w-]{43}", "!(room)"),
        (r"sy[tr]_[\w-]+", "(token)"),
        (r'"device_id":"\w+"', '"device_id":"(device)"'),
        (r'"access_token":"[^"]+"', '"access_token":"(token)"'),
        (r"\b[sm]\d+(_\d+)+|\bt\d+-\d+(_\d+)+", "(position)"),
        (r'"(origin_server_ts|ts|age|age_ts|last_seen_ts|valid_until_ts|retry_after_ms)":\d+', r'"\1":0'),
        (r'"session":"\w+"', '"session":"(session)"'),
        (r"(mxc://[^/]+/)\w{24}", r"\1(media)"),
        (r"127\.0\.0\.([23])(:|%3A)\d+", r"127.0.0.\1\2(port)"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)"),
        (r'"sha256":"[^"]+"', '"sha256":""'),
    ):
        user.mask(pattern, by)


def _one(user):
    """The name of the server."""
    return f"127.0.0.2:{Path(user.setup['data'], 'port').read_text()}"


class _Member:
    """A member with an account on the server that is tried."""

    def __init__(self, user, name):
        self._user, self.fields = user, {}
        body = {"username": name, "password": PASSWORD, "device_id": f"OF{name.upper()}", "auth": {"type": "m.login.dummy"}}
        made = user.see(f"register {name}", user.post(f"{CLIENT}/register", json=body))
        expect(made.status == 200, f"not registered: {made.text}")
        self.id, self.token = made.json()["user_id"], made.json()["access_token"]
        self.fields = {"Authorization": f"Bearer {self.token}"}

    def ask(self, method, path, body=None, status=200, **how):
        """A request of this member's."""
        if body is not None:
            how["json"] = body
        answer = self._user.request(method, path if path.startswith("/_") else CLIENT + path, self.fields, **how)
        expect(answer.status == status, f"{method} {path}: {answer.status} {answer.text[:500]}")
        return answer

    def say(self, room, text, number):
        """A message in a room: the event's id."""
        path = f"/rooms/{_quoted(room)}/send/m.room.message/{_quoted(str(number))}"
        return self.ask("PUT", path, {"msgtype": "m.text", "body": text}).json()["event_id"]

    def sync(self, since=None, timeout=0):
        """What is new."""
        query = {"timeout": timeout, "since": since} if since else {"timeout": timeout}
        return self.ask("GET", f"/sync?{urllib.parse.urlencode(query)}").json()


def _far(user, method, path, token=None, body=None):
    """A request of a member of the other server's, which goes there directly: status, and what has come back."""
    port = Path(user.setup["data"], "port").read_text()
    asked = urllib.request.Request(f"http://127.0.0.4:{port}{path}", method=method)
    asked.add_header("Content-Type", "application/json")
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, data, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()


def _said(answer, room):
    """Texts of the new messages of a room."""
    found = answer.get("rooms", {}).get("join", {}).get(room, {})
    return [event["content"].get("body") for event in found.get("timeline", {}).get("events", ()) if event["type"] == "m.room.message"]


def _texts(page, begin, count):
    """Texts of the messages in a part of a room's history that begin like this, once there are so many."""
    found = [event["content"].get("body", "") for event in page["chunk"] if event["type"] == "m.room.message"]
    found = [text for text in found if text.startswith(begin)]
    return found if len(found) >= count else None


@step
def accounts(user):
    """versions, registration, login, a wrong password, tokens, CORS, errors"""
    _masks(user)
    for path in ("/", "/_matrix/client/versions", f"{CLIENT}/login", "/_matrix/none", "/_matrix/client/v3/account/whoami", "/.well-known/matrix/client"):
        user.see(path, user.get(path))
    user.see("CORS", user.request("OPTIONS", f"{CLIENT}/login", {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}))
    user.see("how to register", user.post(f"{CLIENT}/register", json={}))
    state["anna"], state["ben"] = _Member(user, "anna"), _Member(user, "ben")
    user.see("taken", user.post(f"{CLIENT}/register", json={"username": "anna", "password": "x", "auth": {"type": "m.login.dummy"}}))
    words = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": "anna"}, "device_id": "SECOND"}
    user.see("wrong", user.post(f"{CLIENT}/login", json={**words, "password": "wrong"}))
    token = user.see("login", user.post(f"{CLIENT}/login", json={**words, "password": PASSWORD})).json()["access_token"]
    user.see("who", user.get(f"{CLIENT}/account/whoami", {"Authorization": f"Bearer {token}"}))
    user.see("by the query", user.get(f"{CLIENT}/account/whoami?access_token={token}"))
    user.see("logout", user.post(f"{CLIENT}/logout", {"Authorization": f"Bearer {token}"}, json={}))
    user.see("a wrong token", user.get(f"{CLIENT}/account/whoami", {"Authorization": f"Bearer {token}"}))
    user.see("no JSON", user.post(f"{CLIENT}/login", {"Content-Type": "application/json"}, b"{"))
    anna = state["anna"]
    name = _quoted(anna.id)
    anna.ask("PUT", f"/profile/{name}/displayname", {"displayname": "Anna é"})
    user.see("profile", user.get(f"{CLIENT}/profile/{name}"))
    user.see("not encoded", user.get(f"{CLIENT}/profile/{anna.id}"))


@step
def rooms(user):
    """rooms whose aliases have `/`, `#`, `?`, `%`, `+`, `//`, `..` and umlauts; state with `/` in its key; joins, invitations"""
    anna, ben, name = state["anna"], state["ben"], _one(user)
    for number, alias in enumerate(ALIASES):
        if number == len(ALIASES) // 2:
            user.reload()
        body = {"preset": "public_chat", "name": f"Room {number}", "room_alias_name": alias}
        room = anna.ask("POST", "/createRoom", body).json()["room_id"]
        path = f"/directory/room/{_quoted(f'#{alias}:{name}')}"
        found = user.see(f"alias {alias}", user.get(CLIENT + path))
        expect(found.status == 200 and found.json()["room_id"] == room, f"{alias}: {found.status} {found.text}")
        joined = ben.ask("POST", f"/join/{_quoted(f'#{alias}:{name}')}", {})
        expect(joined.json()["room_id"] == room, f"{alias}: another room")
        state.setdefault("rooms", {})[alias] = room
    room = state["rooms"]["plain"]
    other = f"/directory/room/{_quoted(f'#second/é:{name}')}"
    user.see("another alias", anna.ask("PUT", other, {"room_id": room}))
    user.see("aliases", anna.ask("GET", f"/rooms/{_quoted(room)}/aliases"))
    user.see("take it away", anna.ask("DELETE", other))
    user.see("gone", user.get(CLIENT + other))
    for key in ("", "a/b", "a%2Fb", "é ?#", ".."):
        path = f"/rooms/{_quoted(room)}/state/test.own%2Ftype/{_quoted(key)}"
        anna.ask("PUT", path, {"key": key})
        user.see(f"state {key}", anna.ask("GET", path))
    user.see("no key", anna.ask("GET", f"/rooms/{_quoted(room)}/state/m.room.name"))
    user.see("a key that is empty", anna.ask("GET", f"/rooms/{_quoted(room)}/state/m.room.name/"))
    for kind in ("test/one", "test.é"):
        path = f"/user/{_quoted(anna.id)}/account_data/{_quoted(kind)}"
        anna.ask("PUT", path, {"kind": kind})
        user.see(f"data {kind}", anna.ask("GET", path))
        path = f"/user/{_quoted(anna.id)}/rooms/{_quoted(room)}/tags/{_quoted('u.' + kind)}"
        user.see(f"tag {kind}", anna.ask("PUT", path, {"order": 0.5}))
    closed = anna.ask("POST", "/createRoom", {"preset": "private_chat"}).json()["room_id"]
    user.see("closed", ben.ask("POST", f"/join/{_quoted(closed)}", {}, status=403))
    user.see("invite", anna.ask("POST", f"/rooms/{_quoted(closed)}/invite", {"user_id": ben.id}))
    user.see("join", ben.ask("POST", f"/rooms/{_quoted(closed)}/join", {}))
    user.see("leave", ben.ask("POST", f"/rooms/{_quoted(closed)}/leave", {}))
    user.note("members", sorted(anna.ask("GET", f"/rooms/{_quoted(room)}/joined_members").json()["joined"]))
    public = anna.ask("GET", "/publicRooms").json()
    user.note("public", public["total_room_count_estimate"])


@step
def talk(user):
    """messages across a reload, pages of them, relations, receipts, typing, redaction, search, too large ones"""
    anna, ben, room = state["anna"], state["ben"], state["rooms"]["a/b"]
    path = f"/rooms/{_quoted(room)}"
    since = ben.sync()["next_batch"]
    events = []
    for number in range(20):
        if number == 10:
            user.reload()
        events.append((anna, ben)[number % 2].say(room, f"Message {number} é", f"m{number} é%+"))
    # Sent again, since its client has not heard the answer.
    expect(anna.say(room, "Message 0 é", "m0 é%+") == events[0], "the same message is there twice")
    user.note("new", _said(ben.sync(since), room))
    page = ben.ask("GET", f"{path}/messages?dir=b&limit=5").json()
    user.note("page", [event["content"].get("body") for event in page["chunk"]])
    page = ben.ask("GET", f"{path}/messages?dir=b&limit=5&from={_quoted(page['end'])}").json()
    user.note("the next", [event["content"].get("body") for event in page["chunk"]])
    user.see("event", anna.ask("GET", f"{path}/event/{_quoted(events[3])}"), without=("content-length",))
    relation = {"m.relates_to": {"rel_type": "m.annotation", "event_id": events[3], "key": "\N{THUMBS UP SIGN}/"}}
    anna.ask("PUT", f"{path}/send/m.reaction/r1", relation)
    found = anna.ask("GET", f"/_matrix/client/v1/rooms/{_quoted(room)}/relations/{_quoted(events[3])}/m.annotation").json()
    user.note("relations", [event["content"] for event in found["chunk"]])
    user.see("receipt", ben.ask("POST", f"{path}/receipt/m.read/{_quoted(events[5])}", {}))
    user.see("typing", ben.ask("PUT", f"{path}/typing/{_quoted(ben.id)}", {"typing": True, "timeout": 5000}))
    user.see("redact", anna.ask("PUT", f"{path}/redact/{_quoted(events[0])}/x1", {"reason": "é"}))
    user.see("context", anna.ask("GET", f"{path}/context/{_quoted(events[5])}?limit=2"), body=False, without=("content-length",))
    found = anna.ask("POST", "/search", {"search_categories": {"room_events": {"search_term": "Message"}}}).json()
    user.note("search", found["search_categories"]["room_events"]["count"])
    user.see("not a member", user.get(f"{CLIENT}{path}/messages?dir=b"))
    user.see("too large", anna.ask("PUT", f"{path}/send/m.room.message/large", {"msgtype": "m.text", "body": "x" * 70_000}, status=413))


@step
def wait(user):
    """/sync that waits: until a message comes, across a reload, until its time is over; one that goes away"""
    anna, ben, room = state["anna"], state["ben"], state["rooms"]["a#b?c&d"]
    other = user.another()
    since = ben.sync()["next_batch"]
    for number in range(4):
        query = urllib.parse.urlencode({"since": since, "timeout": 30_000})
        with other.start("GET", f"{CLIENT}/sync?{query}", ben.fields) as exchange:
            exchange.sent()
            if number == 2:
                user.reload()
            anna.say(room, f"News {number}", f"n{number}")
            found = exchange.whole()
        expect(found.status == 200, f"{found.status} {found.text[:300]}")
        found = found.json()
        # The end of what ben was typing may come first.
        while not _said(found, room):
            expect(found["rooms"], f"nothing was new: {found}")
            found = ben.sync(found["next_batch"], 5000)
        expect(_said(found, room) == [f"News {number}"], f"not what was said: {found}")
        since = found["next_batch"]
    user.see("nothing", ben.ask("GET", f"/sync?since={since}&timeout=1500"), body=False, without=("content-length",))
    with other.start("GET", f"{CLIENT}/sync?since={since}&timeout=30000", ben.fields) as exchange:
        exchange.sent()
    user.note("still there", ben.ask("GET", "/account/whoami").status)
    other.close()


@step
def media(user):
    """20 MB up and down, names with umlauts, a picture and its smaller ones, in chunks, who may not"""
    anna, kinds = state["anna"], {"Content-Type": "application/octet-stream", **state["anna"].fields}
    made = user.see("upload", user.post(f"/_matrix/media/v3/upload?filename={_quoted('a b+c/é.bin')}", kinds, DATA))
    expect(made.status == 200, f"no upload: {made.text}")
    uri = made.json()["content_uri"].removeprefix("mxc://")
    state["media"] = uri
    for path in (uri, f"{uri}/{_quoted('Ä / 100%.bin')}"):
        back = anna.ask("GET", f"/_matrix/client/v1/media/download/{path}")
        user.see(path.removeprefix(uri) or "download", back, without=("etag", "last-modified"))
        expect(back.body == DATA, f"another file: {len(back.body)} bytes")
    user.see("nobody", user.get(f"/_matrix/client/v1/media/download/{uri}"))
    picture = png()
    made = user.post("/_matrix/media/v3/upload?filename=p.png", {**anna.fields, "Content-Type": "image/png"}, picture)
    uri = made.json()["content_uri"].removeprefix("mxc://")
    back = user.see("picture", anna.ask("GET", f"/_matrix/client/v1/media/download/{uri}"))
    expect(back.body == picture, "another picture")
    user.see("smaller", anna.ask("GET", f"/_matrix/client/v1/media/thumbnail/{uri}?width=96&height=96&method=crop"))
    user.see("none", anna.ask("GET", f"/_matrix/client/v1/media/download/{_one(user)}/none", status=404))
    user.see("configuration", anna.ask("GET", "/_matrix/client/v1/media/config"))
    pieces = (DATA[at : at + 100_000] for at in range(0, 3_000_000, 100_000))
    user.note("in chunks", user.post("/_matrix/media/v3/upload", kinds, pieces).status)


@step
def federation(user):
    """a member of another server, by signed requests over TLS: joins by alias, messages both ways across a reload, media, profiles"""
    anna, name = state["anna"], _one(user)
    user.see("version", user.get("/_matrix/federation/v1/version"))
    user.see("not signed", user.get(f"/_matrix/federation/v1/query/profile?user_id={_quoted(anna.id)}"))
    user.note("keys", sorted(user.get("/_matrix/key/v2/server").json()))
    user.until("the other server", lambda: _far(user, "GET", "/health")[0] == 200)
    body = {"username": "carl", "password": PASSWORD, "auth": {"type": "m.login.dummy"}}
    status, text = _far(user, "POST", f"{CLIENT}/register", body=body)
    expect(status == 200, f"{status} {text}")
    carl, token = json.loads(text)["user_id"], json.loads(text)["access_token"]

    def far(method, path, body=None):
        status, text = _far(user, method, CLIENT + path if not path.startswith("/_") else path, token, body)
        expect(status == 200, f"{method} {path}: {status} {text[:500]}")
        return text

    for alias in ALIASES:
        joined = json.loads(far("POST", f"/join/{_quoted(f'#{alias}:{name}')}", {}))
        expect(joined["room_id"] == state["rooms"][alias], f"{alias}: another room")
    user.note("profile", far("GET", f"/profile/{_quoted(anna.id)}").decode())
    room = state["rooms"]["a/b"]
    for number in range(6):
        if number == 3:
            user.reload()
        far("PUT", f"/rooms/{_quoted(room)}/send/m.room.message/{number}", {"msgtype": "m.text", "body": f"From afar {number} é"})
        anna.say(room, f"From here {number}", f"f{number}")
    # The other server has them as soon as it has taken them; the order of what is said at the same time is each server's affair.
    path, want = f"/rooms/{_quoted(room)}/messages?dir=b&limit=100", 12
    here = user.until("messages from afar", lambda: _texts(anna.ask("GET", path).json(), "From ", want))
    afar = user.until("messages from here", lambda: _texts(json.loads(far("GET", path)), "From ", want))
    user.note("heard", (sorted(here), sorted(afar)))
    data = far("GET", f"/_matrix/client/v1/media/download/{state['media']}")
    expect(data == DATA, f"another file: {len(data)} bytes")
    # Older than the join: the other server asks for them.
    history = user.until("messages of old", lambda: _texts(json.loads(far("GET", path)), "Message ", 19))
    user.note("history", sorted(history))
    far("POST", f"/rooms/{_quoted(room)}/leave", {})
    user.until("that he has left", lambda: carl not in anna.ask("GET", f"/rooms/{_quoted(room)}/joined_members").json()["joined"])
