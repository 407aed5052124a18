#!/usr/bin/env python3
"""/echo and /sum of the conformance kit's reference application, as a CGI program (RFC 3875)."""

import base64
import hashlib
import json
import os
import sys


def echo(environ, body):
    """What the application gets."""
    headers = {key[5:].lower().replace("_", "-"): value for key, value in environ.items() if key.startswith("HTTP_")}
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if key in environ:
            headers[key.lower().replace("_", "-")] = environ[key]
    return {
        "method": environ["REQUEST_METHOD"],
        "mount": environ["SCRIPT_NAME"],
        "path": environ.get("PATH_INFO", ""),
        "query": environ["QUERY_STRING"],
        "version": environ["SERVER_PROTOCOL"],
        "scheme": environ["REQUEST_SCHEME"],
        "remote": f"{environ['REMOTE_ADDR']} {environ['REMOTE_PORT']}",
        "local": f"{environ['SERVER_ADDR']} {environ['SERVER_PORT']}",
        "https": environ.get("HTTPS", ""),
        "server_name": environ["SERVER_NAME"],
        "remote_user": environ.get("REMOTE_USER"),
        "auth_type": environ.get("AUTH_TYPE"),
        "headers": headers,
        "body": base64.b64encode(body).decode(),
    }


def main():
    # CGI's variables are bytes; here each byte is one character.
    environ = {key.decode("latin-1"): value.decode("latin-1") for key, value in os.environb.items()}
    body = sys.stdin.buffer.read(int(environ.get("CONTENT_LENGTH") or 0))
    if environ.get("PATH_INFO", "").startswith("/sum"):
        kind, text = "text/plain", f"{len(body)} {hashlib.sha256(body).hexdigest()}"
    else:
        kind, text = "application/json", json.dumps(echo(environ, body))
    sys.stdout.write(f"Content-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n{text}")


main()
