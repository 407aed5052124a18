"""The server's executable, for ``python3 -m maitred run`` and its other commands.

A wheel for one platform brings the executable beside the interpreter's scripts; it is not imported but takes this process over.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

# What the server's command line begins with; a test compares this with what `maitred --help` lists.
COMMANDS = (
    "app",
    "init",
    "serve",
    "run",
    "check",
    "import",
    "status",
    "top",
    "reload",
    "upgrade",
    "stop",
    "pool",
    "upstream",
    "cache",
    "completions",
    "man",
    "help",
)
VERSION_OPTIONS = ("--version", "-V")
# The interpreter that `maitred app` and `maitred init` are to start an application with.
PYTHON_VARIABLE = "MAITRED_PYTHON"


class NoServer(Exception):
    """Where the server was looked for, for the person who wants to start it."""


def places():
    """Where the executable may be, the likeliest first: of this environment, of this user, beside this package."""
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    # `pip install --target DIR` has the package in DIR, and the executable in DIR/bin.
    schemes.append(str(Path(__file__).resolve().parent.parent / "bin"))
    return [str(Path(place) / "maitred") for place in schemes if place]


def find():
    """The path of the server's executable. Raises NoServer."""
    for place in [*places(), shutil.which("maitred")]:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise NoServer(
        f"the server's executable is not installed: it is neither {', '.join(places())}, nor in PATH. A wheel for this platform "
        "brings it: `cargo xtask dist` in a checkout makes target/dist/maitred-VERSION-py3-none-PLATFORM.whl. This package alone has "
        "only what runs applications."
    )


def wanted(arguments, started_by_server):
    """Whether these arguments are for the server. A process that Maitred has started is always a worker."""
    return not started_by_server and arguments[:1] and arguments[0] in COMMANDS


def environment():
    """The variables of the server: it starts applications with this interpreter, as if its virtual environment was active."""
    variables = dict(os.environ)
    if sys.executable:
        variables[PYTHON_VARIABLE] = sys.executable
    if sys.executable and sys.prefix != sys.base_prefix:
        scripts = os.path.dirname(sys.executable)
        path = variables.get("PATH", os.defpath)
        variables["VIRTUAL_ENV"] = sys.prefix
        variables["PATH"] = path if path.split(os.pathsep)[0] == scripts else scripts + os.pathsep + path
    return variables


def take_over(arguments):
    """Becomes the server: same process, same descriptors. Raises NoServer and OSError."""
    executable = find()
    sys.stdout.flush()
    os.execve(executable, [executable, *arguments], environment())
