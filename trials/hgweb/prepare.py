"""A repository that all users may push to."""

import subprocess
import sys
from pathlib import Path

hg, directory = sys.argv[1], Path(sys.argv[2])
repository = directory / "repository"
subprocess.run([hg, "init", str(repository)], check=True)
(repository / "README").write_text("An empty repository, almost.\n")
commit = ["commit", "--addremove", "--cwd", str(repository), "-m", "first", "-u", "anna", "-d", "0 0"]
subprocess.run([hg, *commit], check=True)
(directory / "hgweb.config").write_text(f"""
[paths]
repository = {repository}
[web]
push_ssl = false
allow-push = *
allow-archive = zip gz
style = gitweb
cacerts =
""")
