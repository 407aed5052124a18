"""What a script of use is made of."""

from observation import Failure, expect

__all__ = ["STEPS", "Failure", "Late", "expect", "step", "told"]

# Every step that use.py has named, in the order in which they stand there.
STEPS = []


class Late(Failure):
    """Nothing happened until the deadline; the text says what was waited for."""


def step(function):
    """One thing that a user does: a function of a `User`. The first line of its text goes into the table of applications."""
    if not function.__doc__:
        raise TypeError(f"the step {function.__name__} does not say what it is")
    STEPS.append(function)
    return function


def told(function):
    """What a step is, in a few words."""
    return function.__doc__.strip().splitlines()[0].rstrip(".")
