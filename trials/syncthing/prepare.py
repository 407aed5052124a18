"""A home of Syncthing's without connections to others: `python3 prepare.py DIRECTORY`."""

import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

OFF = ("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "crashReportingEnabled", "startBrowser")

home = Path(sys.argv[1], "home")
subprocess.run(["syncthing", "generate", f"--home={home}", "--no-default-folder", "--skip-port-probing"], check=True)
tree = xml.parse(home / "config.xml")
options = tree.find("options")
for name in OFF:
    options.find(name).text = "false"
options.find("listenAddress").text = "tcp://127.0.0.1:0"
options.find("urAccepted").text = "-1"
tree.write(home / "config.xml")
Path(sys.argv[1], "folder").mkdir()
