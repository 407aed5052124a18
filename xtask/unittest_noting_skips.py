"""Python's unit tests, as `python3 -m unittest` runs them; what they leave out goes to the file that MAITRED_SKIPS names.

    unittest_noting_skips.py [discover ...]

Each line has kind, name and reason, with tabs between. A reason that begins with "here: " is one of this machine's kind; any
other names something that is not installed.
"""

import os
import sys
import unittest

SURROUNDINGS = "here: "


class Result(unittest.TextTestResult):
    """Notes what is skipped."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        kind = "surroundings" if reason.startswith(SURROUNDINGS) else "missing"
        if path := os.environ.get("MAITRED_SKIPS"):
            why = " ".join(reason.removeprefix(SURROUNDINGS).split())
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{kind}\t{test.id()}\t{why}\n")


# As with -m: the tests of the current directory.
sys.path[0] = os.getcwd()
unittest.main(module=None, testRunner=unittest.TextTestRunner(resultclass=Result))
