"""An application that keeps its users' records in Kinto."""

from kit import expect, step

ANNA = ("anna", "secret")


def _masks(user):
    user.mask(r'"last_modified":\s*\d+', '"last_modified":(time)')
    user.mask(r'"?\b1[0-9]{12}\b"?', "(time)")


WITHOUT = ("last-modified", "etag", "next-page", "expires")


@step
def start(user):
    """the root, redirects to the version, OpenAPI, CORS, errors"""
    _masks(user)
    for path in ("/v1/", "/", "/v1", "/v1/__heartbeat__", "/v1/__lbheartbeat__", "/v1/missing", "/missing", "/v1/buckets"):
        user.see(path, user.get(path), without=WITHOUT)
    ask = {"Origin": "https://app.test", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    user.see("CORS", user.request("OPTIONS", "/v1/buckets", ask))
    user.see("CORS, GET", user.get("/v1/", {"Origin": "https://app.test"}))


@step
def records(user):
    """an account, buckets, collections, 150 records in pages, conditions, a batch, permissions, across a reload"""
    ask = user.request
    user.see("account", ask("PUT", "/v1/accounts/anna", json={"data": {"password": "secret"}}), without=WITHOUT, body=False)
    bucket = user.see("bucket", ask("PUT", "/v1/buckets/b", json={}, user=ANNA), without=WITHOUT)
    expect(bucket.status == 201, f"no bucket: {bucket.text}")
    user.see("collection", ask("PUT", "/v1/buckets/b/collections/c", json={}, user=ANNA), without=WITHOUT)
    place = "/v1/buckets/b/collections/c/records"
    batch = [{"method": "PUT", "path": f"/buckets/b/collections/c/records/r{n:03}", "body": {"data": {"n": n}}} for n in range(20)]
    answers = ask("POST", "/v1/batch", json={"requests": batch}, user=ANNA).json()["responses"]
    user.note("batch", [answer["status"] for answer in answers])
    for number in range(20, 150):
        if number == 80:
            user.reload()
        made = ask("PUT", f"{place}/r{number:03}", json={"data": {"n": number, "text": "é"}}, user=ANNA)
        expect(made.status == 201, f"record {number}: {made.text}")
    user.see("page", user.get(f"{place}?_sort=n&_limit=50", user=ANNA), without=WITHOUT)
    user.see("filter", user.get(f"{place}?min_n=100&max_n=103&_sort=-n", user=ANNA), without=WITHOUT)
    user.see("count", ask("HEAD", place, user=ANNA), without=WITHOUT)
    one = user.see("one", user.get(f"{place}/r007", user=ANNA), without=WITHOUT)
    user.see("not modified", user.get(f"{place}/r007", {"If-None-Match": one.one("etag")}, user=ANNA), without=WITHOUT)
    stale = {"If-Match": '"1"'}
    user.see("too late", ask("PATCH", f"{place}/r007", stale, json={"data": {"n": 1}}, user=ANNA), without=WITHOUT, body=False)
    user.see("patch", ask("PATCH", f"{place}/r007", json={"data": {"m": 1}}, user=ANNA), without=WITHOUT)
    user.see("another user", user.another().get(place), without=WITHOUT)
    user.see("delete", ask("DELETE", place, user=ANNA), without=WITHOUT, body=False)
    user.see("flush", ask("POST", "/v1/__flush__", user=ANNA), without=WITHOUT)
