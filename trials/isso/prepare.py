"""Isso's settings."""

import sys
from pathlib import Path

directory, port = Path(sys.argv[1]), sys.argv[2]
(directory / "isso.cfg").write_text(f"""
[general]
dbpath = {directory}/comments.db
host = https://blog.test/
log-file = {directory}/isso.log
[server]
listen = http://127.0.0.1:{port}
[moderation]
enabled = false
[guard]
enabled = false
[hash]
salt = s
algorithm = pbkdf2:1000:6:sha1
""")
