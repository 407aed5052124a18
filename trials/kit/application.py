"""An application's folder: app.toml, use.py, and the list of its packages with their versions."""

import json
import re
import shutil
import tomllib
from pathlib import Path

from compare import Allowance

TRIALS = Path(__file__).resolve().parent.parent
ROOT = TRIALS.parent

PROTOCOLS = ("http/1.1", "https/1.1", "https/2")
TRANSPORTS = ("auto", "direct", "relay")
# Each transport and each protocol once: what the quick subset has time for.
_QUICK = (("direct", "http/1.1"), ("relay", "https/1.1"), ("auto", "https/2"))
# Towards a server that speaks HTTP or FastCGI there is no transport to choose.
PROXY = "proxy"

_KEYS = {
    "title": str,
    "package": str,
    "by": str,
    "note": str,
    "quick": (bool, str),
    "keeps_nothing": bool,
    "seconds": int,
    "protocols": list,
    "needs": dict,
    "install": dict,
    "environment": dict,
    "alone": dict,
    "behind": dict,
    "allow": list,
    "fails": list,
}
_PARTS = {
    "install": {"pip", "client", "npm", "go", "run"},
    "alone": {"command", "ready", "prepare"},
    "behind": {"pool", "site", "more", "limits", "proxy", "upstream", "path", "prepare", "start"},
}


class Wrong(Exception):
    """An app.toml that is not valid."""


class Application:
    """One folder of `trials/`."""

    def __init__(self, name):
        self.name, self.folder = name, TRIALS / name
        file = self.folder / "app.toml"
        try:
            table = tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise Wrong(f"{file}: {error}") from error
        self._check(table)
        self.title, self.package, self.by = table["title"], table["package"], table["by"]
        self.note = table.get("note", "")
        self.quick = table.get("quick", False)
        self.keeps_nothing = table.get("keeps_nothing", False)
        self.seconds = table.get("seconds", 240)
        self.protocols = tuple(table.get("protocols", PROTOCOLS))
        self.needs = table.get("needs", {})
        self.install = table.get("install", {})
        self.environment = table.get("environment", {})
        self.alone, self.behind = table["alone"], table["behind"]
        self.allowed = [Allowance(entry) for entry in table.get("allow", ())]
        self.fails = [Allowance({"field": "*", **entry}) for entry in table.get("fails", ())]

    def _check(self, table):
        for name, value in table.items():
            if not isinstance(value, _KEYS.get(name, ())):
                raise Wrong(f"{self.name}/app.toml: {name}: no such key, or of another kind")
        for name, keys in _PARTS.items():
            if unknown := set(table.get(name, ())) - keys:
                raise Wrong(f"{self.name}/app.toml: [{name}] has no key {', '.join(sorted(unknown))}")
        if missing := {"title", "package", "by", "alone", "behind"} - set(table):
            raise Wrong(f"{self.name}/app.toml: without {', '.join(sorted(missing))}")
        if ("pool" in table["behind"]) == bool(table["behind"].get("proxy")):
            raise Wrong(f"{self.name}/app.toml: [behind] has either a pool, or proxy = true")

    def configurations(self, quick):
        """Pairs of a transport and a protocol in which it is tried behind Maitred."""
        if self.behind.get("proxy") or self.behind.get("upstream"):
            protocols = [protocol for _, protocol in _QUICK] if quick else PROTOCOLS
            pairs = [(PROXY, protocol) for protocol in protocols]
        else:
            pairs = _QUICK if quick else [(way, protocol) for way in TRANSPORTS for protocol in PROTOCOLS]
        protocols = {self.quick} if quick and isinstance(self.quick, str) else self.protocols
        return [(way, protocol) for way, protocol in pairs if protocol in protocols]

    def missing(self):
        """Debian packages that it needs and that are not here: their names."""
        return sorted({package for program, package in self.needs.items() if not _is_there(program)})

    def version(self):
        """Of its package, as the list of its packages has it; for Debian's, as it is installed here."""
        pins = self.folder / "requirements.txt"
        if pins.exists() and (found := re.search(rf"(?mi)^{re.escape(self.package)}==(\S+)", pins.read_text())):
            return found[1]
        lock = self.folder / "package-lock.json"
        if lock.exists() and (entry := json.loads(lock.read_text())["packages"].get(f"node_modules/{self.package}")):
            return entry["version"]
        modules = self.folder / "go.mod"
        if modules.exists() and (found := re.search(rf"(?m)\b{re.escape(self.package)} v(\S+)", modules.read_text())):
            return found[1]
        return self._debian()

    def _debian(self):
        for line in Path("/var/lib/dpkg/status").read_text("utf-8", "replace").split("\n\n"):
            if line.startswith(f"Package: {self.package}\n") and (found := re.search(r"(?m)^Version: (?:\d+:)?(\S+)", line)):
                return f"{found[1]} (Debian)"
        raise Wrong(f"{self.name}: {self.package} is in no list of packages of its folder, and no package of Debian's here")


def _is_there(program):
    """A program of this name in PATH or where administrators' programs are, or a file with this path."""
    if program.startswith("/"):
        return Path(program).exists()
    return any(shutil.which(program, path=path) for path in (None, "/usr/sbin:/sbin:/usr/local/sbin"))


def names():
    """Of all applications."""
    return sorted(file.parent.name for file in TRIALS.glob("*/app.toml"))
