"""Puts an application and its client below target/trials, once: again only when its list of packages has changed."""

import hashlib
import os
import shutil
import sys
import threading
from pathlib import Path

from .application import ROOT, TRIALS
from .processes import run

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "trials"
# A large application's packages come over a slow line.
_SECONDS = 900
_COMMON = TRIALS / "client.txt"
# The clients' common environment is made once, also if several applications want it at the same time.
_one_at_a_time = threading.Lock()


class Installed:
    """Where the parts of an application are."""

    def __init__(self, application):
        self.directory = TARGET / application.name
        self.build = self.directory / "build"
        self.python = Path(sys.executable)
        self.client = Path(sys.executable)


def _digest(*parts):
    digest = hashlib.sha256(sys.version.encode())
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
    return digest.hexdigest()


def _once(directory, digest, make):
    """Calls `make` unless the directory was made from the same before."""
    note = directory / ".made-from"
    if note.exists() and note.read_text() == digest:
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    make()
    note.write_text(digest)


def _venv(directory, *lists):
    """A virtual environment with what these lists name; its interpreter."""
    python, log = directory / "bin" / "python3", directory.with_suffix(".install.log")

    def make():
        run("venv", [sys.executable, "-m", "venv", str(directory)], "/", dict(os.environ), log, _SECONDS)
        words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        words += [word for each in lists for word in ("--requirement", str(each))]
        run("pip install", words, "/", dict(os.environ), log, _SECONDS)

    _once(directory, _digest(*lists), make)
    return python


def _npm(application, build):
    lists = [application.folder / "package.json", application.folder / "package-lock.json"]

    def make():
        build.mkdir(parents=True)
        for each in lists:
            shutil.copy(each, build)
        words = ["npm", "ci", "--no-audit", "--no-fund", "--silent"]
        run("npm ci", words, build, dict(os.environ), build.parent / "npm.install.log", _SECONDS)
        copy()
        for words in application.install.get("run", ()):
            run(words[0], words, build, dict(os.environ), build.parent / "run.install.log", _SECONDS)

    def link():
        # What is tested is the adapter of this tree, whatever the list of packages says, and whose tree has installed it.
        adapter, own = build / "node_modules" / "maitred", ROOT / "adapters" / "node"
        if adapter.is_symlink():
            if adapter.readlink() == own:
                return
            adapter.unlink()
        shutil.rmtree(adapter, ignore_errors=True)
        adapter.symlink_to(own)

    def copy():
        # Programs find the packages from where they are themselves.
        for file in application.folder.iterdir():
            if file.is_file() and file not in lists:
                shutil.copy(file, build)
            elif file.is_dir() and file.name != "__pycache__":
                shutil.copytree(file, build / file.name, dirs_exist_ok=True)

    # What is built is made from these.
    sources = sorted(application.folder.rglob("*.js")) if "run" in application.install else []
    _once(build, _digest(*lists, str(application.install), *sources), make)
    copy()
    link()


def install(application):
    """Installs what is not there yet. Raises Failure."""
    place = Installed(application)
    place.directory.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time:
        if "pip" in application.install:
            place.python = _venv(place.directory / "venv", application.folder / "requirements.txt")
        own = application.folder / "client.txt"
        place.client = _venv(place.directory / "client", _COMMON, own) if own.exists() else _venv(TARGET / "client", _COMMON)
        if "npm" in application.install:
            _npm(application, place.build)
        if "go" in application.install:
            # Go knows by itself what has changed.
            words = ["go", "build", "-o", f"{place.build}/", *application.install["go"]]
            place.build.mkdir(exist_ok=True)
            run("go build", words, application.folder, dict(os.environ), place.directory / "go.install.log", _SECONDS)
    return place


def lock(application):
    """Writes down the versions of all packages that `[install] pip` and `[install] client` need."""
    for key, file in (("pip", "requirements.txt"), ("client", "client.txt")):
        if key in application.install:
            _lock(application, application.install[key], application.folder / file)


def _lock(application, packages, file):
    directory = TARGET / application.name / "lock"
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    python, log = directory / "bin" / "python3", directory.with_suffix(".log")
    run("venv", [sys.executable, "-m", "venv", str(directory)], "/", dict(os.environ), log, _SECONDS)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run("pip install", [*pip, "install", "--quiet", *packages], "/", dict(os.environ), log, _SECONDS)
    frozen = directory.with_suffix(".txt")
    frozen.unlink(missing_ok=True)
    run("pip freeze", [*pip, "freeze"], "/", dict(os.environ), frozen, _SECONDS)
    file.write_text(f"# Made by `cargo xtask trials --lock {application.name}` from app.toml.\n" + frozen.read_text())
    shutil.rmtree(directory)
