"""Applications as their users have them, alone and behind Maitred. `use.py` of an application needs `step` and `User`."""

import sys
from pathlib import Path

# How browsers and applications differ behind any server is not the business of each folder. Behind all others: its modules have
# names that a client may have, too.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "adapters" / "differential"))

from .png import png  # noqa: E402
from .steps import Failure, expect, step  # noqa: E402

# More than what a server keeps in memory, or sends at once.
TEN_MB = bytes(range(256)) * 40_000

__all__ = ["TEN_MB", "Failure", "expect", "png", "step"]
