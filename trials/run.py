#!/usr/bin/env python3
"""Uses real applications as their users do, alone and behind Maitred, and compares what their users see.

    python3 trials/run.py [NAMES] [--quick] [--write-docs]

README.md says how an application is added. Exit status: 0 if everything was as it has to be, 1 if not, 2 for wrong usage, 128 and
a signal's number if that has ended it, and all that it had started.
"""

import argparse
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from kit import table
from kit.application import Application, Wrong, names
from kit.install import TARGET, install, lock
from kit.servers import certificate, maitred
from kit.steps import Failure
from kit.trial import Trial
from kit.wait import Stopped, end_on_signals


def _arguments():
    parser = argparse.ArgumentParser(description="Real applications, alone and behind Maitred.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of trials/ (default: all)")
    parser.add_argument("--quick", action="store_true", help="the quick subset, each with three configurations instead of nine")
    parser.add_argument("--only", metavar="TEXT", default="", help="only steps whose name contains TEXT")
    parser.add_argument("--way", metavar="TEXT", default="", help="only configurations such as `relay, https/2` that contain TEXT")
    parser.add_argument("--maitred", metavar="PATH", help="the server (default: $MAITRED, or cargo's debug build)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="applications at the same time (default: 2)")
    parser.add_argument("--write-docs", action="store_true", help="write the rows of these applications in docs/applications.md")
    parser.add_argument("--lock", action="store_true", help="write the versions of all packages to requirements.txt, and run nothing")
    parser.add_argument("--packages", action="store_true", help="list Debian packages that are needed and missing, and run nothing")
    parser.add_argument("--list", action="store_true", help="list the applications, and run nothing")
    return parser.parse_args()


def _chosen(options):
    unknown = set(options.names) - set(names())
    if unknown:
        raise Wrong(f"no such folder with an app.toml in trials/: {', '.join(sorted(unknown))}")
    applications = [Application(name) for name in options.names or names()]
    return [each for each in applications if each.quick or not options.quick or options.names]


def _skip(application, why):
    """Said, and noted where `cargo xtask test` lists what it leaves out."""
    print(f"== {application.name}: SKIPPED: {why}", flush=True)
    if path := os.environ.get("MAITRED_SKIPS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"missing\ttrial {application.name}\t{' '.join(why.split())}\n")


def _try(options, application, binary, files):
    """One application; whether it was as it has to be (None: it was left out), and the row of the table."""
    began = time.monotonic()
    if missing := application.missing():
        _skip(application, f"needs Debian's {', '.join(missing)}")
        return None, None
    try:
        installed = install(application)
    except Failure as error:
        _skip(application, f"cannot be installed: {error}")
        return None, None
    trial = Trial(application, installed, binary, files, options)
    try:
        report = trial.run()
    except Exception:  # A mistake of the runner's own must not hide what becomes of the other applications.
        print(f"== {application.name}: FAILED\n{traceback.format_exc()}", flush=True)
        return False, None
    print(report.text(time.monotonic() - began), flush=True)
    return report.good(), report.row()


def _run(options):
    applications = _chosen(options)
    if options.list:
        for each in applications:
            print(f"{each.name}\t{each.package} {each.version()}\t{'quick' if each.quick else ''}")
        return 0
    if options.packages:
        print("\n".join(sorted({package for each in applications for package in each.missing()})))
        return 0
    if options.lock:
        for each in applications:
            lock(each)
        return 0
    binary = maitred(options.maitred)
    TARGET.mkdir(parents=True, exist_ok=True)
    files = certificate(TARGET)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda each: _try(options, each, binary, files), applications))
    if options.write_docs:
        table.write([row for _, row in found if row], {Application(name).title for name in names()})
    failed = [each.name for each, (good, _) in zip(applications, found) if good is False]
    skipped = sum(good is None for good, _ in found)
    print(f"\n{len(found) - len(failed) - skipped} applications passed, {len(failed)} failed, {skipped} skipped")
    if failed:
        print("failed:", ", ".join(failed))
    return 1 if failed or not found else 0


def main():
    options = _arguments()
    ended_by = end_on_signals()
    try:
        return _run(options)
    except Stopped:
        print("trials: ended by a signal", file=sys.stderr)
        return 128 + ended_by()
    except (Wrong, Failure, table.NoPlace, subprocess.SubprocessError) as error:
        print(f"trials: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
