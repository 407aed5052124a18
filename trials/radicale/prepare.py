"""Radicale's configuration, and the file of its users."""

import sys
from pathlib import Path

directory = Path(sys.argv[1])
(directory / "users").write_text("anna:secret\nben:other\n")
(directory / "config").write_text(f"""
[auth]
type = htpasswd
htpasswd_filename = {directory}/users
htpasswd_encryption = plain
delay = 0

[storage]
filesystem_folder = {directory}/collections
""")
