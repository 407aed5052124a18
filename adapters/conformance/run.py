#!/usr/bin/env python3
"""Runs every case of the conformance kit against an adapter.

    python3 adapters/conformance/run.py [--only TEXT] -- COMMAND...
    python3 adapters/conformance/run.py [--only TEXT] --connect PATH --log FILE

COMMAND starts the adapter with the reference application (see README.md); PATH is the Unix socket of a server that runs with it
already, FILE its error log. Exit status: 0 if all cases passed,
1 if not, 2 for wrong usage.
"""

import argparse
import resource
import sys
import time

import cases_channel
import cases_handoff
import cases_http
import cases_recovery
import cases_streams
import cases_trailers
from kit import Connected, Skipped, Worker


def start(options, recovery):
    """The adapter, for one case; `recovery`: with a recovery socket. Raises Skipped."""
    if not options.connect:
        return Worker(options.command, recovery)
    if recovery:
        raise Skipped("it listens for channels, and is connected again")
    return Connected(options.connect, options.log)


def main():
    parser = argparse.ArgumentParser(description="Conformance kit of the handoff protocol, version 1.")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument("--connect", metavar="PATH", help="the Unix socket on which a server awaits channels")
    parser.add_argument("--log", metavar="FILE", help="that server's error log")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="starts an adapter's reference application")
    options = parser.parse_args()
    if bool(options.command) == bool(options.connect) or bool(options.connect) != bool(options.log):
        parser.error("either COMMAND, or --connect and --log")
    # A case with some hundred connections holds two descriptors of each.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    passed = failed = skipped = 0
    modules = (cases_channel, cases_http, cases_handoff, cases_streams, cases_trailers, cases_recovery)
    for name, case in [pair for module in modules for pair in module.CASES.items()]:
        if options.only not in name:
            continue
        began = time.monotonic()
        try:
            with start(options, getattr(case, "recovery", False)) as worker:
                case(worker)
        except Skipped as why:
            skipped += 1
            print(f"skipped {name}: {why}", flush=True)
        except Exception as error:  # Whatever goes wrong in one case, the others still run.
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        else:
            passed += 1
            print(f"passed {name} ({time.monotonic() - began:.2f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
