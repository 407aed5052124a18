#!/usr/bin/env python3
"""Instructions in user space of a small answer, by a module and configured, counted by callgrind in one thread of the server without
its system's part: parsing, routing, answering, sending, as `requests::modules::tests::hello_again_and_again` has it.

Usage: modules.py TEST EXAMPLES > modules.json

TEST is the test executable of `maitred-worker`, built with `cargo test --release -p maitred-worker --lib --no-run`; EXAMPLES is
the directory with libhello.so (`cargo build --release -p maitred-module --examples`)."""

import json
import os
import re
import subprocess
import sys
import tempfile

FEW, MANY = 200, 1200
TEST = "requests::modules::tests::hello_again_and_again"


def count(program, route, requests):
    with tempfile.NamedTemporaryFile() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", program, "--exact", TEST, "--ignored",
                   "--test-threads=1"]
        environment = {**os.environ, "MAITRED_COUNT_ROUTE": route, "MAITRED_COUNT_REQUESTS": str(requests)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main():
    program, examples = sys.argv[1:]
    hello = f'module = {{ path = "{os.path.abspath(examples)}/libhello.so", config = {{ greeting = "Hello" }} }}'
    routes = {"respond": 'respond = { body = "Hello, world\\n" }', "hello": hello}
    each = {name: (count(program, route, MANY) - count(program, route, FEW)) / (MANY - FEW) for name, route in routes.items()}
    json.dump({"instructions": each, "ratio": each["hello"] / each["respond"]}, sys.stdout, indent=1)
    print()


main()
