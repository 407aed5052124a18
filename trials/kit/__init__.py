"""Applications as their users have them, alone and behind Maitred. `use.py` of an application needs `step` and `User`."""

from .steps import Failure, expect, step

__all__ = ["Failure", "expect", "step"]
