"""Users of a store of objects: boto3, rclone, and what holders of signed addresses ask for."""

import hashlib
import random
import urllib.parse
from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from kit import expect, step

_BUCKET = "trial-1"
_LOGIN = ("trial", "trial-secret")
# What rclone takes as the name of an object.
_KEYS = (
    "plain", "a space", "a+b", "a%b", "a%20b", "a%2Fb", "%2e%2e/x", "é/ü", "n\u0303", "日本", "a#b", "a?b=c&d", "a..b", "..a/b..",
    "~t", "a:b", "a\\b", "*", "'q'", '"', "<&>", "(1)!", "a@b,c$d;e=f", "end ", " begin", "a\nb", "[x]{y}|z^`", "%", "%zz",
    "+", "x" * 200, "a/b/c/d/e",
)
# And what it refuses with a message that names it: as it was sent.
_REFUSED = ("a//b", "a/../b", "x/./y", "/begin", "x/..", "end//")
_DATA = random.Random(5).randbytes(30_000_000)


def _store(user, login=_LOGIN):
    """A client of boto3's."""
    config = Config(s3={"addressing_style": "path"}, signature_version="s3v4", retries={"max_attempts": 0})
    key, secret = login
    names = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=user.base, verify=str(user.authority), config=config, **names)


def _mask(user):
    user.mask(r"<(LastModified|RequestId|HostId|UploadId|Initiated)>[^<]*<", r"<\1>(it)<")
    user.mask(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "(time)")


def _refusal(ask, **words):
    """How a request is refused: status, code, message."""
    try:
        ask(**words)
    except ClientError as error:
        found = error.response["Error"]
        return error.response["ResponseMetadata"]["HTTPStatusCode"], found["Code"], found.get("Message")
    return None


def _signed(user, method, path, body=b"", login=_LOGIN, fields=None):
    """Fields of a request for a path as it is sent, signed."""
    words = {"x-amz-content-sha256": hashlib.sha256(body).hexdigest(), **(fields or {})}
    request = AWSRequest(method=method, url=user.base + path, headers=words, data=body)
    S3SigV4Auth(Credentials(*login), "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items())


def _path(key):
    return f"/{_BUCKET}/{urllib.parse.quote(key, safe='/~')}"


@step
def keys(user):
    """boto3: names with spaces, `+`, `%`, `%2F`, `#`, `?`, `é`, `..`, quotes, line ends: put, listed, deleted; `//`, `/../`"""
    store = _store(user)
    store.create_bucket(Bucket=_BUCKET)
    for key in _KEYS:
        data = b"data of " + key.encode()
        store.put_object(Bucket=_BUCKET, Key=key, Body=data)
        found = store.get_object(Bucket=_BUCKET, Key=key)
        expect(found["Body"].read() == data, f"{key!r}: other data")
        tag = store.head_object(Bucket=_BUCKET, Key=key)["ETag"]
        expect(tag == f'"{hashlib.md5(data).hexdigest()}"', f"{key!r}: another ETag: {tag}")
    user.reload()
    listed = [each["Key"] for each in store.list_objects_v2(Bucket=_BUCKET)["Contents"]]
    expect(listed == sorted(_KEYS, key=str.encode), f"other names: {set(listed) ^ set(_KEYS)}")
    for key in _REFUSED:
        refused = _refusal(store.put_object, Bucket=_BUCKET, Key=key, Body=b"x")
        expect(refused and refused[1] == "InvalidArgument" and f'"{key}"' in refused[2], f"{key!r}: {refused}")
        user.note(key, refused)
        user.note(f"{key}, read", _refusal(store.get_object, Bucket=_BUCKET, Key=key))
    store.put_object(Bucket=_BUCKET, Key="directory/")
    store.copy_object(Bucket=_BUCKET, Key="a copy é+%", CopySource={"Bucket": _BUCKET, "Key": "a?b=c&d"})
    expect(store.get_object(Bucket=_BUCKET, Key="a copy é+%")["Body"].read() == b"data of a?b=c&d", "another copy")
    gone = [{"Key": key} for key in (*_KEYS[1:], "a copy é+%", "directory/")]
    user.note("deleted", len(store.delete_objects(Bucket=_BUCKET, Delete={"Objects": gone})["Deleted"]))
    user.note("left", [each["Key"] for each in store.list_objects_v2(Bucket=_BUCKET)["Contents"]])


@step
def lists(user):
    """boto3: lists of 60 objects in pages, with prefix and delimiter, both versions; buckets"""
    store = _store(user)
    for number in range(60):
        store.put_object(Bucket=_BUCKET, Key=f"many é/{number % 3}/{number:03} +", Body=b"")
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix="many é/", PaginationConfig={"PageSize": 25})
    user.note("pages", [[each["Key"] for each in page["Contents"]] for page in pages])
    first = store.list_objects(Bucket=_BUCKET, Delimiter="/", MaxKeys=10, EncodingType="url")
    user.note("first version", [first.get("CommonPrefixes"), [each["Key"] for each in first.get("Contents", [])]])
    found = store.list_objects_v2(Bucket=_BUCKET, Delimiter="/", Prefix="many é/", StartAfter="many é/0/057 +")
    user.note("prefixes", [each["Prefix"] for each in found["CommonPrefixes"]])
    user.note("buckets", [each["Name"] for each in store.list_buckets()["Buckets"]])
    user.note("no bucket", _refusal(store.list_objects_v2, Bucket="none-1"))
    user.note("not empty", _refusal(store.delete_bucket, Bucket=_BUCKET))
    for number in range(60):
        store.delete_object(Bucket=_BUCKET, Key=f"many é/{number % 3}/{number:03} +")


@step
def multipart(user):
    """boto3: 30 MB in parts, four at once, across a reload, back in ranges; parts one by one, one sent again, given up"""
    store = _store(user)
    file, back = user.directory / "large", user.directory / "back"
    file.write_bytes(_DATA)
    seen = []

    def progress(_):
        # In the middle, while several parts are on their way.
        if not seen:
            seen.append(True)
            user.reload()

    at_once = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
    store.upload_file(str(file), _BUCKET, "large é+", Config=at_once, Callback=progress)
    expect(seen, "no part has gone")
    store.download_file(_BUCKET, "large é+", str(back), Config=at_once)
    expect(back.read_bytes() == _DATA, "other bytes come back")
    words = {"Bucket": _BUCKET, "Key": "by hand #?"}
    begun = store.create_multipart_upload(**words)
    words["UploadId"] = begun["UploadId"]
    parts = []
    for number in (2, 1, 3, 1):
        data = _DATA[number * 1_000_000 :][: 6_000_000 if number < 3 else 1000]
        made = store.upload_part(PartNumber=number, Body=data, **words)
        parts = [each for each in parts if each["PartNumber"] != number] + [{"PartNumber": number, "ETag": made["ETag"]}]
    parts.sort(key=lambda each: each["PartNumber"])
    user.note("parts", [(each["PartNumber"], each["Size"], each["ETag"]) for each in store.list_parts(**words)["Parts"]])
    user.note("complete", store.complete_multipart_upload(MultipartUpload={"Parts": parts}, **words)["ETag"])
    whole = _DATA[1_000_000:7_000_000] + _DATA[2_000_000:8_000_000] + _DATA[3_000_000:3_001_000]
    expect(store.get_object(Bucket=_BUCKET, Key="by hand #?")["Body"].read() == whole, "other bytes come back")
    words["UploadId"] = store.create_multipart_upload(Bucket=_BUCKET, Key="by hand #?")["UploadId"]
    store.upload_part(PartNumber=1, Body=_DATA[:6_000_000], **words)
    store.abort_multipart_upload(**words)
    user.note("given up", _refusal(store.list_parts, **words))


@step
def objects(user):
    """boto3: ranges, conditions, metadata with `_` in their names, types, checksums; wrong secrets, no login"""
    store = _store(user)
    words = {"Bucket": _BUCKET, "Key": "an object"}
    more = {"Metadata": {"own_name": "a value", "own.name": "another", "plain": "x"}, "ContentType": "text/x-own; charset=utf-8"}
    store.put_object(**words, Body=_DATA[:3_000_000], CacheControl="max-age=5", ChecksumAlgorithm="SHA256", **more)
    head = store.head_object(**words)
    expect(head["Metadata"].get("own_name") == "a value", f"metadata: {head['Metadata']}")
    names = ("ContentLength", "ContentType", "ETag", "Metadata", "CacheControl", "AcceptRanges")
    user.note("head", {name: head.get(name) for name in names})
    for asked in ("bytes=0-9", "bytes=-10", "bytes=2999990-"):
        part = store.get_object(**words, Range=asked)
        user.note(asked, (part["ResponseMetadata"]["HTTPStatusCode"], part.get("ContentRange"), part["Body"].read()[:100]))
    user.note("two ranges", _refusal(store.get_object, **words, Range="bytes=10-19,30-39"))
    user.note("behind the end", _refusal(store.get_object, **words, Range="bytes=9999999-"))
    user.note("not modified", _refusal(store.get_object, **words, IfNoneMatch=head["ETag"]))
    user.note("no match", _refusal(store.get_object, **words, IfMatch='"other"'))
    user.note("none", _refusal(store.get_object, Bucket=_BUCKET, Key="none é"))
    user.note("wrong secret", _refusal(_store(user, ("trial", "wrong")).get_object, **words))
    user.note("wrong secret, 3 MB", _refusal(_store(user, ("trial", "wrong")).put_object, **words, Body=_DATA[:3_000_000]))
    user.note("wrong key", _refusal(_store(user, ("nobody", "wrong")).list_objects_v2, Bucket=_BUCKET))
    # By TLS in chunks of Amazon's own within the body, with the checksum in a trailer there.
    store.put_object(**words, Body=_DATA[:20_000_000])
    expect(store.get_object(**words)["Body"].read() == _DATA[:20_000_000], "other bytes come back")


@step
def signed(user):
    """by HTTP: requests that are signed, and addresses that are, for the same names; changed ones; 20 MB across a reload"""
    _mask(user)
    store = _store(user)
    fixed = ("x-amz-request-id", "x-amz-id-2", "last-modified")
    user.see("nobody", user.get(f"/{_BUCKET}?list-type=2"), without=fixed)
    for key in _KEYS:
        path, data = _path(key), f"data of {key}".encode()
        put = user.request("PUT", path, _signed(user, "PUT", path, data), data)
        expect(put.status == 200, f"{key!r} is refused: {put.status} {put.text}")
        user.see(f"put {key}", put, without=fixed)
        address = store.generate_presigned_url("get_object", {"Bucket": _BUCKET, "Key": key}, ExpiresIn=1000)
        got = user.get(address.removeprefix(user.base))
        expect(got.status == 200 and got.body == data, f"{key!r}: {got.status} {got.text}")
        user.see(f"get {key}", got, without=fixed)
    # The same object under another spelling: what is signed is the spelling.
    for spelt in ("%61%20space", "a+b", "a%2Bb", "a%2bb", "%c3%a9/%C3%BC", "a%2F%2Fb", "x/%2E%2E/y", "x/%2e/y", "a;b/c"):
        path = f"/{_BUCKET}/{spelt}"
        user.see(f"as {spelt}", user.get(path, _signed(user, "GET", path)), without=fixed)
    other = _signed(user, "GET", _path("plain"), login=("trial", "x"))
    user.see("another secret", user.get(_path("plain"), other), without=fixed)
    moved = user.get(_path("a+b"), _signed(user, "GET", _path("plain")))
    expect(moved.status == 403, f"signed for another path: {moved.status}")
    user.see("signed for another path", moved, without=fixed)
    words = {"Bucket": _BUCKET, "Key": "sent é"}
    address = store.generate_presigned_url("put_object", words, ExpiresIn=1000).removeprefix(user.base)
    with user.start("PUT", address, body=_DATA[:20_000_000]) as exchange:
        exchange.sent()
        user.reload()
        user.see("20 MB", exchange.whole(), without=fixed)
    expect(store.get_object(**words)["Body"].read() == _DATA[:20_000_000], "other bytes come back")
    address = store.generate_presigned_url("get_object", words, ExpiresIn=1000).removeprefix(user.base)
    user.see("range", user.get(address, {"Range": "bytes=5-9"}), without=fixed)
    user.see("HEAD is not GET", user.request("HEAD", address), without=fixed)
    user.see("changed", user.get(address.replace("X-Amz-Expires=1000", "X-Amz-Expires=100000")), without=fixed)
    words["ResponseContentDisposition"] = 'attachment; filename="é +.bin"'
    address = store.generate_presigned_url("get_object", words, ExpiresIn=1000).removeprefix(user.base)
    user.see("with a name", user.get(address), without=fixed)


@step
def rclone(user):
    """rclone: a tree with such names and 20 MB copied up, checked, listed, copied down, across a reload; a sync that deletes"""
    key, secret = _LOGIN
    names = {"TYPE": "s3", "PROVIDER": "Rclone", "ENDPOINT": user.base, "ACCESS_KEY_ID": key, "SECRET_ACCESS_KEY": secret}
    environment = {f"RCLONE_CONFIG_TRIAL_{name}": value for name, value in names.items()}
    environment |= {"RCLONE_CONFIG": "", "RCLONE_S3_CHUNK_SIZE": "5Mi", "RCLONE_S3_UPLOAD_CUTOFF": "5Mi", "RCLONE_RETRIES": "1"}

    def run(*words, **how):
        return user.run(Path(user.setup["build"], "rclone"), *words, environment=environment, **how)

    tree = user.directory / "tree"
    for key in ("a space", "a+b", "a%2Fb", "é/ü", "a#b", "a?b=c&d", "..a/b..", "'q'", '"', "end ", "plain", "deep/er/é +"):
        file = tree / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(key)
    (tree / "large é").write_bytes(_DATA[:20_000_000])
    run("copy", tree, "trial:by-rclone/tree é")
    user.reload()
    run("check", "--download", tree, "trial:by-rclone/tree é")
    user.note("listed", sorted(run("lsf", "-R", "--format", "sp", "trial:by-rclone").splitlines()))
    run("copy", "trial:by-rclone/tree é", "down")
    run("check", "--download", tree, "down")
    (tree / "a+b").unlink()
    (tree / "plain").write_text("changed")
    run("sync", tree, "trial:by-rclone/tree é")
    run("check", tree, "trial:by-rclone/tree é")
    user.note("one", run("cat", "trial:by-rclone/tree é/plain"))
    run("moveto", "trial:by-rclone/tree é/a?b=c&d", "trial:by-rclone/moved #")
    user.note("moved", run("cat", "trial:by-rclone/moved #"))
    run("purge", "trial:by-rclone")
