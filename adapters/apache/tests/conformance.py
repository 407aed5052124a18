#!/usr/bin/env python3
"""Runs the conformance kit against Apache with each of its MPMs. Exit status 0 if all passed, or if there is no Apache here."""

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
    kit = server.ADAPTER.parent / "conformance" / "run.py"
    failed = []
    for mpm, limits in MPMS.items():
        print(f"-- Apache, MPM {mpm}", flush=True)
        with server.Apache(mpm, limits + server.REFERENCE) as apache:
            command = [sys.executable, str(kit), "--connect", apache.path, "--log", str(apache.log), *sys.argv[1:]]
            if subprocess.run(command).returncode != 0:
                failed.append(mpm)
                print(apache.log.read_text()[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
