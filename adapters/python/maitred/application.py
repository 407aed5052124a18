"""The application that ``module:callable`` names: found, or made by calling what makes it."""

import ast
import importlib
import inspect
import os
import sys
import traceback

# Names that are looked for in a module whose callable is not named.
_USUAL = ("application", "app")
# "short": of a traceback only the lines of the application are shown, as `maitred app` asks for.
TRACEBACK_VARIABLE = "MAITRED_TRACEBACK"
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))


class StartError(Exception):
    """Why this process cannot start, for the person who configured it."""


def load(name):
    """The application that `module:callable` or `module:factory()` names. Raises StartError."""
    module_name, _, attribute = name.partition(":")
    module = _imported(module_name)
    call = _call_in(attribute)
    if call:
        function, positional, named = call
        factory = _attribute(module, module_name, function)
        try:
            found = factory(*positional, **named)
        except BaseException as error:
            raise StartError(f"calling '{attribute}' of '{module_name}' failed:\n{shown(error).rstrip()}") from error
    else:
        attribute = attribute or next((usual for usual in _USUAL if hasattr(module, usual)), _USUAL[0])
        found = _attribute(module, module_name, attribute)
        if is_factory(found):
            raise StartError(
                f"'{attribute}' of '{module_name}' makes an application and is none: write '{module_name}:{attribute}()'."
            )
    if not callable(found) and not hasattr(found, "__rsgi__"):
        raise StartError(f"'{name}' is not callable but of type {type(found).__name__}.")
    return found


def is_factory(found):
    """Whether a function can be called without arguments, and neither with those of WSGI nor with those of ASGI."""
    if not inspect.isfunction(found):
        return False
    return takes(found, 0) and not takes(found, 2) and not takes(found, 3)


def takes(found, count):
    """Whether something can be called with so many arguments."""
    try:
        inspect.signature(found).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def shown(error):
    """The traceback of an error as text: all of it, or the application's own part."""
    if os.environ.get(TRACEBACK_VARIABLE) != "short":
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    short = traceback.TracebackException(type(error), error, error.__traceback__)
    part = short
    while part is not None:
        own = [frame for frame in part.stack if _is_own(frame.filename)]
        part.stack = traceback.StackSummary.from_list(own)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(short.format())


def _is_own(path):
    """Whether a file is the application's: no part of Python, of this package, or of one that is installed."""
    if path.startswith("<"):
        return False
    path = os.path.abspath(path)
    installed = any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
    return not installed and not path.startswith((_PACKAGE + os.sep, _LIBRARY + os.sep))


def _imported(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise StartError(f"importing '{name}' failed:\n{shown(error).rstrip()}") from error
        raise StartError(
            f"there is no module '{error.name}'. Looked in: {', '.join(filter(None, sys.path))}. "
            "Start Maitred's pool in the directory that holds it, or set PYTHONPATH."
        ) from error
    except BaseException as error:
        raise StartError(f"importing '{name}' failed:\n{shown(error).rstrip()}") from error


def _attribute(module, module_name, attribute):
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            callables = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
            raise StartError(
                f"module '{module_name}' has no '{part}'. Callables in it: {', '.join(callables) or 'none'}."
            )
        found = getattr(found, part)
    return found


def _call_in(attribute):
    """Of `create_app("x", debug=True)`: the function, and the arguments; None for what is no call. Raises StartError."""
    try:
        expression = ast.parse(attribute, mode="eval").body if "(" in attribute else None
    except SyntaxError as error:
        raise StartError(f"'{attribute}' cannot be read as a call: {error.msg}.") from error
    if not isinstance(expression, ast.Call):
        return None
    try:
        positional = [ast.literal_eval(value) for value in expression.args]
        named = {word.arg: ast.literal_eval(word.value) for word in expression.keywords}
    except (ValueError, TypeError) as error:
        raise StartError(f"'{attribute}': arguments have to be literals, such as 'x', 1 or True.") from error
    return ast.unparse(expression.func), positional, named
