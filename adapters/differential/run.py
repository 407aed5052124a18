#!/usr/bin/env python3
"""Sends the same requests to an application that listens by itself, and to the same one behind Maitred; compares the answers.

    python3 adapters/differential/run.py --adapter NAME [--only TEXT]

NAME.toml in this directory says how both are started, and which differences are right (see README.md). Exit status: 0 if all
cases passed or if the application is not installed, 1 if not, 2 for wrong usage.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import cases_websocket  # noqa: F401  Registers its cases.
from cases import CASES
from client import Failure
from compare import Allowance, WrongAllowance, differences, unexplained
from servers import Plan, StartFailed, binary

_HERE = Path(__file__).resolve().parent
_KEYS = {"requires", "features", "directory", "environment", "transports", "alone", "behind", "allow"}
_LOG_LINES = 30
# A server that fails so many cases one after another is not asked any more: each may take as long as its deadline.
_FAILURES_MAX = 8


def _arguments():
    parser = argparse.ArgumentParser(description="The same requests to an application alone and behind Maitred.")
    parser.add_argument("--adapter", required=True, metavar="NAME", help="NAME.toml beside this program, or a path")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument("--maitred", metavar="PATH", help="the server (default: $MAITRED, or cargo's debug build)")
    parser.add_argument("--python", metavar="PATH", default=sys.executable, help="what {python} stands for in the file")
    parser.add_argument("--http2", action="store_true", help="reach Maitred over HTTP/2; needs the package h2")
    parser.add_argument("--observe", action="store_true", help="show what the application alone answers, and compare nothing")
    return parser.parse_args()


def _read(name):
    """An adapter's file. Raises OSError, WrongAllowance and tomllib.TOMLDecodeError."""
    file = Path(name) if name.endswith(".toml") else _HERE / f"{name}.toml"
    table = tomllib.loads(file.read_text())
    unknown = set(table) - _KEYS
    if unknown:
        raise WrongAllowance(f"{file.name} has no key {', '.join(sorted(unknown))}")
    return file, table, [Allowance(entry) for entry in table.get("allow", ())]


def _common(names):
    """The differences that every application has."""
    tables = [tomllib.loads((_HERE / f"{name}.toml").read_text()) for name in names]
    return [Allowance(entry) for table in tables for entry in table["allow"]]


def _missing(table, python):
    """Which of the Python modules that the application needs are not there."""
    names = table.get("requires", [])
    return [name for name in names if subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode]


def _observations(server, chosen):
    """What each case found: a list, or the exception."""
    found, failures = {}, 0
    for name, (function, _) in chosen.items():
        if failures >= _FAILURES_MAX:
            found[name] = Failure(f"not asked: {failures} cases have failed, one after another")
            continue
        try:
            found[name] = function(server.address)
            failures = 0
        except Exception as error:  # Whatever goes wrong in one case, the others still run.
            found[name] = error
            failures += 1
    return found


class _Report:
    """Counts, and says what differs."""

    def __init__(self):
        self.passed = self.failed = 0

    def case(self, transport, name, alone, behind, allowances):
        """One case on one transport."""
        if isinstance(behind, Exception):
            wrong = [f"behind: {type(behind).__name__}: {behind}"]
        else:
            # Where the application fails alone, its server may be the cause.
            found = [("failure", str(alone), "-")] if isinstance(alone, Exception) else differences(alone, behind)
            left = unexplained(name, found, allowances)
            wrong = [f"{field}: alone {one[:300]!r}, behind {other[:300]!r}" for field, one, other in left]
        if not wrong:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED {name} ({transport})", *wrong, sep="\n    ", flush=True)

    def idle(self, allowances):
        """An allowance that explains nothing hides what it may explain one day."""
        for allowance in allowances:
            if not allowance.used:
                self.failed += 1
                print(f"FAILED nothing differs any more: [[allow]] {allowance}", flush=True)


def _log(name, text):
    print(f"-- {name} wrote, at last:", *text.splitlines()[-_LOG_LINES:], sep="\n   ", flush=True)


def _transports(options, table):
    """A stream of HTTP/2 has no socket that could be given away, so there is no choice of transports with it."""
    return ["auto"] if options.http2 else table.get("transports", ["direct", "relay"])


def _behind(options, plan, directory, transport):
    server = plan.behind(directory, transport)
    if not options.http2:
        return server
    # Only here, since it needs a package.
    from gateway import Gateway

    return Gateway(server)


def _run(options, file, table, common, own):
    plan = Plan(file, table, options.python, binary(options.maitred))
    features = table.get("features", [])
    named = {name: entry for name, entry in CASES.items() if options.only in name}
    chosen = {name: entry for name, entry in named.items() if entry[1] is None or entry[1] in features}
    report = _Report()
    with tempfile.TemporaryDirectory() as directory, plan.alone(directory) as server:
        alone = _observations(server, chosen)
        if options.observe:
            for name, found in alone.items():
                print(name, *(found if isinstance(found, list) else [repr(found)]), sep="\n    ")
            return 0
        alone_log = server.output()
    for transport in _transports(options, table):
        before = report.failed
        with tempfile.TemporaryDirectory() as directory, _behind(options, plan, directory, transport) as server:
            for name, behind in _observations(server, chosen).items():
                report.case(transport, name, alone[name], behind, [*common, *own])
            if report.failed > before:
                _log("alone", alone_log)
                _log(server.name, server.output())
    if not options.only and not options.http2:
        report.idle(own)
    skipped = len(named) - len(chosen)
    has = ", ".join(features) or "none"
    print(f"{file.stem}: {report.passed} passed, {report.failed} failed, {skipped} skipped (features: {has})")
    return 0 if report.failed == 0 and report.passed else 1


def main():
    options = _arguments()
    try:
        file, table, own = _read(options.adapter)
        common = _common(["common", "http2"] if options.http2 else ["common"])
    except (OSError, WrongAllowance, tomllib.TOMLDecodeError) as error:
        print(f"{options.adapter}: {error}", file=sys.stderr)
        return 2
    missing = _missing(table, options.python)
    if options.http2 and _missing({"requires": ["h2"]}, sys.executable):
        missing.append("h2")
    if missing:
        print(f"{file.stem}: skipped, {options.python} has no {', '.join(missing)}")
        return 0
    try:
        return _run(options, file, table, common, own)
    except StartFailed as error:
        print(f"{file.stem}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
