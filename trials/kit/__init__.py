"""Applications as their users have them, alone and behind Maitred. `use.py` of an application needs `step` and `User`."""

from .steps import Failure, expect, step

# More than what a server keeps in memory, or sends at once.
TEN_MB = bytes(range(256)) * 40_000

__all__ = ["TEN_MB", "Failure", "expect", "step"]
