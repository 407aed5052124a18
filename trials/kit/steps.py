"""What a script of use is made of."""

# Every step that use.py has named, in the order in which they stand there.
STEPS = []


class Failure(AssertionError):
    """The application does not do what its user needs; the text says what."""


class Late(Failure):
    """Nothing happened until the deadline; the text says what was waited for."""


def expect(condition, text):
    """Fails with `text` unless `condition` holds."""
    if not condition:
        raise Failure(text)


def step(function):
    """One thing that a user does: a function of a `User`. The first line of its text goes into the table of applications."""
    if not function.__doc__:
        raise TypeError(f"the step {function.__name__} does not say what it is")
    STEPS.append(function)
    return function


def told(function):
    """What a step is, in a few words."""
    return function.__doc__.strip().splitlines()[0].rstrip(".")
