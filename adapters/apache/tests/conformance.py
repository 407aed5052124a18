#!/usr/bin/env python3
"""Runs the conformance kit against Apache with each of its MPMs, or with the one that --mpm names; other arguments are the kit's.
Exit status 0 if all passed, or if there is no Apache here."""

import argparse
import subprocess
import sys

import server

MPMS = {
    "prefork": "StartServers 3\nMinSpareServers 3\nMaxSpareServers 3\nMaxRequestWorkers 10\n",
    "worker": "StartServers 1\nMinSpareThreads 5\nMaxSpareThreads 20\nThreadsPerChild 10\nMaxRequestWorkers 20\n",
    "event": "StartServers 1\nMinSpareThreads 5\nMaxSpareThreads 20\nThreadsPerChild 10\nMaxRequestWorkers 20\n",
}


def main():
    why = server.missing()
    if why is not None:
        print(f"skipped: {why}")
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--mpm", choices=MPMS)
    own, rest = parser.parse_known_args()
    kit = server.ADAPTER.parent / "conformance" / "run.py"
    failed = []
    for mpm, limits in MPMS.items():
        if own.mpm not in (None, mpm):
            continue
        print(f"-- Apache, MPM {mpm}", flush=True)
        with server.Apache(mpm, limits + server.REFERENCE) as apache:
            command = [sys.executable, str(kit), "--connect", apache.path, "--log", str(apache.log), *rest]
            if subprocess.run(command).returncode != 0:
                failed.append(mpm)
                print(apache.log.read_text()[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
