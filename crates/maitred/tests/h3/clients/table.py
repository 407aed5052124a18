"""Cases of a script, run one after another, and the table of what came of them.

Exit status: 0 if all cases passed but those that are known to fail, and these failed.
"""

import asyncio
import sys
import time
import traceback


class Table:
    def __init__(self, known=None):
        """`known`: cases that fail, by name, and why that is no failure."""
        self.known = known or {}
        self.cases = []

    def case(self, rule, what):
        """A decorator: the function is a case. `rule`: where that is written; `what`: what is done or sent."""
        def add(function):
            self.cases.append((function.__name__, rule, what, function))
            return function
        return add

    async def run(self, only, *arguments):
        """Runs those that `only` names, or all; returns the exit status."""
        failed = []
        for name, rule, what, function in self.cases:
            if only and name not in only:
                continue
            began = time.monotonic()
            try:
                said = await asyncio.wait_for(function(*arguments), 120) or ""
                error = None
            except Exception as caught:  # Any failure is one of the case.
                error, said = caught, f"{type(caught).__name__}: {caught}"
                places = [place for place in traceback.extract_tb(caught.__traceback__) if place.name == name]
                said += "".join(f" (line {place.lineno})" for place in places[-1:])
            outcome = "ok" if error is None else "FAILED"
            if name in self.known:
                outcome = "known" if error else "NOW OK"
                said = f"{said}; {self.known[name]}"
            if outcome in ("FAILED", "NOW OK"):
                failed.append(name)
            print(f"{outcome:6} {time.monotonic() - began:5.1f} s  {name:44} {rule:16} {what}: {said}", flush=True)
        ran = [name for name, *_ in self.cases if not only or name in only]
        print(f"{len(ran) - len(failed)} passed, {len(failed)} failed", *failed)
        return 1 if failed or not ran else 0

    def main(self, only, *arguments):
        sys.exit(asyncio.run(self.run(only, *arguments)))


def check(condition, what):
    """`what`: what is said if the condition does not hold, or a function that makes that."""
    if not condition:
        raise AssertionError(what() if callable(what) else what)
