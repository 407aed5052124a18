"""A calendar and an address book, by the library caldav and by hand."""

import datetime

import caldav

from kit import expect, step

ANNA = ("anna", "secret")
EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//trials//EN
BEGIN:VEVENT
UID:{uid}
DTSTAMP:20260101T000000Z
DTSTART:202601{day:02}T100000Z
DTEND:202601{day:02}T110000Z
SUMMARY:Besprechung {uid} é
END:VEVENT
END:VCALENDAR
"""


def _masks(user):
    user.mask(r'"[0-9a-f]{32,}"', '"(etag)"')
    user.mask(r"&quot;[0-9a-f]{32,}&quot;", '"(etag)"')
    user.mask(r"http://radicale.org/ns/sync/[0-9a-f]+", "(token)")
    user.mask(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)")


def _client(user, name="anna", password="secret"):
    return caldav.DAVClient(user.base + "/", username=name, password=password, ssl_verify_cert=user.authority, timeout=40)


@step
def discovery(user):
    """.well-known, OPTIONS, login, the web interface"""
    _masks(user)
    user.see("well-known", user.get("/.well-known/caldav"))
    user.see("well-known, PROPFIND", user.request("PROPFIND", "/.well-known/carddav", {"Depth": "0"}))
    user.see("OPTIONS", user.request("OPTIONS", "/"))
    user.see("no password", user.request("PROPFIND", "/anna/"))
    user.see("wrong password", user.request("PROPFIND", "/anna/", user=("anna", "wrong")))
    user.see("another user's", user.request("PROPFIND", "/ben/", user=ANNA))
    user.see("root", user.get("/"))
    user.see("web", user.get("/.web/"))
    user.see("web, script", user.get("/.web/js/main.js"))


@step
def calendar(user):
    """a calendar by the library caldav: create, add 20 events, search, change, delete, across a reload"""
    with _client(user) as client:
        principal = client.principal()
        made = principal.make_calendar(name="Arbeit é", cal_id="work")
        user.note("calendars", [(str(each.url), each.get_display_name()) for each in principal.calendars()])
        for number in range(1, 21):
            if number == 10:
                user.reload()
            made.save_event(EVENT.format(uid=f"event-{number}", day=number))
        found = made.search(start=datetime.datetime(2026, 1, 5), end=datetime.datetime(2026, 1, 9), event=True)
        user.note("search", sorted(event.icalendar_component["uid"] for event in found))
        event = made.event_by_uid("event-7")
        event.icalendar_component["summary"] = "changed"
        event.save()
        user.note("changed", str(made.event_by_uid("event-7").icalendar_component["summary"]))
        event.delete()
        user.note("left", len(made.events()))
        token = made.objects_by_sync_token(load_objects=False)
        user.note("sync", len(list(token)))


@step
def by_hand(user):
    """MKCALENDAR, PUT with conditions, REPORT, PROPPATCH, MOVE, DELETE, a vCard with a photo of 3 MB"""
    ask = user.request
    body = (
        b'<?xml version="1.0"?><c:mkcalendar xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">'
        b"<set><prop><displayname>Home</displayname></prop></set></c:mkcalendar>"
    )
    user.see("MKCALENDAR", ask("MKCALENDAR", "/anna/calendar/", body=body, user=ANNA))
    user.see("MKCALENDAR again", ask("MKCALENDAR", "/anna/calendar/", body=body, user=ANNA))
    event = EVENT.format(uid="one", day=1).encode()
    kind = {"Content-Type": "text/calendar; charset=utf-8"}
    user.see("PUT", ask("PUT", "/anna/calendar/one.ics", {**kind, "If-None-Match": "*"}, event, user=ANNA))
    user.see("PUT again", ask("PUT", "/anna/calendar/one.ics", {**kind, "If-None-Match": "*"}, event, user=ANNA))
    user.see("GET", user.get("/anna/calendar/one.ics", user=ANNA))
    user.see("PUT, broken", ask("PUT", "/anna/calendar/two.ics", kind, b"nonsense", user=ANNA))
    report = (
        b'<c:calendar-query xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><prop><getetag/><c:calendar-data/></prop>'
        b'<c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT"/></c:comp-filter></c:filter></c:calendar-query>'
    )
    user.see("REPORT", ask("REPORT", "/anna/calendar/", {"Depth": "1"}, report, user=ANNA))
    user.see("PROPFIND", ask("PROPFIND", "/anna/calendar/", {"Depth": "1"}, user=ANNA))
    patch = b'<propertyupdate xmlns="DAV:"><set><prop><displayname>\xc3\x9cber</displayname></prop></set></propertyupdate>'
    user.see("PROPPATCH", ask("PROPPATCH", "/anna/calendar/", body=patch, user=ANNA))
    to = {"Destination": user.base + "/anna/calendar/moved.ics"}
    user.see("MOVE", ask("MOVE", "/anna/calendar/one.ics", to, user=ANNA))
    elsewhere = {"Destination": "https://elsewhere.test/anna/calendar/x.ics"}
    user.see("MOVE elsewhere", ask("MOVE", "/anna/calendar/moved.ics", elsewhere, user=ANNA))
    body = b'<mkcol xmlns="DAV:"><set><prop><resourcetype><collection/><addressbook xmlns="urn:ietf:params:xml:ns:carddav"/>'
    user.see("MKCOL", ask("MKCOL", "/anna/book/", body=body + b"</resourcetype></prop></set></mkcol>", user=ANNA))
    photo = "A" * 3_000_000
    card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:c\r\nFN:Émile\r\nN:É;;;;\r\nPHOTO;ENCODING=b;TYPE=JPEG:{photo}\r\nEND:VCARD\r\n".encode()
    user.see("vCard", ask("PUT", "/anna/book/c.vcf", {"Content-Type": "text/vcard"}, card, user=ANNA))
    back = user.get("/anna/book/c.vcf", user=ANNA)
    expect(len(back.body) > 2_000_000, f"{len(back.body)} bytes of the card have come back")
    user.see("vCard back", back)
    user.see("DELETE", ask("DELETE", "/anna/calendar/", user=ANNA))
    user.see("gone", user.get("/anna/calendar/moved.ics", user=ANNA))
