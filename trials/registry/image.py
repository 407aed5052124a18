"""Makes an image of generated layers, in the layout of the Open Container Initiative."""

import gzip
import hashlib
import io
import json
import random
import tarfile


def sha256(data):
    """A digest as registries write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(name, data):
    """A layer with one file: a tar archive, uncompressed."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def write(directory, layers, tag):
    """An image of these layers (compressed as little as possible, as random data is): the digests of its layers."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data, kind):
        digest = sha256(data)
        (blobs / digest.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest, "size": len(data)}

    packed = [put(gzip.compress(each, 1, mtime=0), "layer.v1.tar+gzip") for each in layers]
    rootfs = {"type": "layers", "diff_ids": [sha256(each) for each in layers]}
    config = put(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": rootfs}).encode(), "config.v1+json")
    words = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": packed}
    manifest = put(json.dumps(words).encode(), "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return [each["digest"] for each in packed]


def random_bytes(seed, count):
    """The same ones for the same seed."""
    return random.Random(seed).randbytes(count)
