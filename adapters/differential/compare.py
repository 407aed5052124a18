"""Two lists of observations become a list of differences, and an adapter's file says which of them are right."""

import fnmatch
import re

# What a response does not have.
ABSENT = "-"


def differences(alone, behind):
    """Tuples ``(field, alone, behind)`` of texts; `alone` and `behind` are lists of what client.observed returns."""
    if len(alone) != len(behind):
        return [("responses", str(len(alone)), str(len(behind)))]
    found = []
    for one, other in zip(alone, behind):
        for name in sorted({**one, **other}):
            left, right = one.get(name, ABSENT), other.get(name, ABSENT)
            if left != right:
                found.append((name, left, right))
    return found


class WrongAllowance(Exception):
    """An [[allow]] of an adapter's file that says too little, or has unknown keys."""


class Allowance:
    """One [[allow]]: which difference, and why it is right."""

    def __init__(self, table):
        unknown = set(table) - {"field", "cases", "alone", "behind", "why"}
        if unknown:
            raise WrongAllowance(f"[[allow]] has no key {', '.join(sorted(unknown))}")
        if not table.get("field") or not table.get("why"):
            raise WrongAllowance(f"[[allow]] needs a field, and says why: {table}")
        self.field = table["field"]
        self._cases = table.get("cases", ["*"])
        self._alone = re.compile(table.get("alone", ".*"), re.DOTALL)
        self._behind = re.compile(table.get("behind", ".*"), re.DOTALL)
        self.why = table["why"]
        self.used = 0

    def covers(self, case, difference):
        """Whether this is the difference that is meant."""
        field, alone, behind = difference
        if not fnmatch.fnmatchcase(field, self.field):
            return False
        if not any(fnmatch.fnmatchcase(case, pattern) for pattern in self._cases):
            return False
        return bool(self._alone.fullmatch(alone) and self._behind.fullmatch(behind))

    def __str__(self):
        return f"{self.field} in {', '.join(self._cases)}"


def unexplained(case, found, allowances):
    """The differences that no allowance covers; notes which allowances were of use."""
    left = []
    for difference in found:
        covering = [allowance for allowance in allowances if allowance.covers(case, difference)]
        for allowance in covering:
            allowance.used += 1
        if not covering:
            left.append(difference)
    return left
