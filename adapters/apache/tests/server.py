"""Starts Apache with mod_maitred for tests: its own configuration, its own directory, one process that is ended by its number."""

import contextlib
import errno
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ADAPTER = HERE.parent
sys.path.insert(0, str(ADAPTER.parent / "conformance"))

import kit  # noqa: E402  the tests' side of a channel; no package, so that it needs no installation

# Bounds how long a broken server can hold the tests up; nothing here takes long.
DEADLINE_S = 60


def eventually(condition):
    """Looks again and again until `condition()` is true; returns whether it was, before the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def open_gate(gate):
    """Opens a named pipe for a process that waits at its other end, and closes it. Never waits for ever itself."""

    def opened():
        try:
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    if not eventually(opened):
        raise AssertionError(f"no process waits at {gate}")


CONFIGURATION = """
ServerRoot "{root}"
PidFile "{root}/pid"
ServerName test.example
ErrorLog "{root}/error.log"
LogLevel warn
LogFormat "%h %l %u %t \\"%r\\" %>s %O %X" combined
CustomLog "{root}/access.log" combined
DocumentRoot "{root}/public"
DefaultRuntimeDir "{root}"
TypesConfig /etc/mime.types
{user}
LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
{load}
LoadModule maitred_module {build}/mod_maitred.so
LoadModule reference_module {build}/mod_reference.so
MaitredListen unix:{root}/maitred.sock mode=0666
ExtendedStatus On
<Directory />
    Require all denied
</Directory>
<Directory "{root}/public">
    Require all granted
    AllowOverride All
</Directory>
<Directory "{cgi}">
    Require all granted
    Options +ExecCGI
</Directory>
{more}
"""

REFERENCE = """
UseCanonicalPhysicalPort On
<Location "/">
    SetHandler reference
</Location>
ScriptAliasMatch "^/app/echo(.*)" "{cgi}/reference.py/echo$1"
ScriptAliasMatch "^/(echo|sum)(.*)" "{cgi}/reference.py/$1$2"
<LocationMatch "^(/app)?/(echo|sum)">
    SetHandler cgi-script
    # Apache drops the length that a CGI program states, unless told otherwise.
    SetEnv ap_trust_cgilike_cl 1
    Require all granted
</LocationMatch>
"""

MODULES = (
    "authn_core authn_file authz_core authz_user authz_host auth_basic alias dir env headers mime rewrite setenvif status "
    "include deflate filter"
).split()


def missing():
    """Why Apache cannot be tested here, or None."""
    for program, package in (("apxs", "apache2-dev"), ("apache2", "apache2"), ("make", "make")):
        if path_of(program) is None:
            return f"no {program} (Debian: {package})"
    return None


def php_module():
    """The file of mod_php, or None."""
    folder = subprocess.run([path_of("apxs"), "-q", "LIBEXECDIR"], capture_output=True, text=True, check=True).stdout
    found = sorted(Path(folder.strip()).glob("libphp*.so"))
    return str(found[-1]) if found else None


def path_of(program):
    """Where a program is, also in the directories for administrators."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def build():
    """Compiles both modules if necessary; the directory where they are."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ADAPTER.parent.parent / "target")) / "apache"
    target.mkdir(parents=True, exist_ok=True)
    sources = [*ADAPTER.glob("*.[ch]"), ADAPTER / "Makefile", HERE / "mod_reference.c"]
    for source in sources:
        copy = target / source.name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)
    run = subprocess.run(
        ["make", "-s", "all", "mod_reference.la", "EXTRA=-Wc,-Werror"], cwd=target, capture_output=True, text=True
    )
    if run.returncode != 0:
        raise RuntimeError(run.stdout + run.stderr)
    return target / ".libs"


class Apache:
    """A running Apache; `with` ends it."""

    def __init__(self, mpm="prefork", more="", modules=()):
        self._directory = tempfile.TemporaryDirectory(prefix="maitred-apache-")
        self.root = Path(self._directory.name)
        self.path = str(self.root / "maitred.sock")
        self.log = self.root / "error.log"
        (self.root / "public").mkdir()
        # Apache's user may not be allowed to look into the directory of the repository.
        cgi = self.root / "cgi"
        cgi.mkdir()
        for name in ("reference.py", "stream.py", "nph-chunks.py"):
            shutil.copy(HERE / name, cgi / name)
        user = ""
        if os.geteuid() == 0:
            user = "User www-data\nGroup www-data"
            account = pwd.getpwnam("www-data")
            os.chown(self.root, account.pw_uid, account.pw_gid)
        self.root.chmod(0o755)
        self.log.touch()
        folder = subprocess.run([path_of("apxs"), "-q", "LIBEXECDIR"], capture_output=True, text=True, check=True)
        folder = folder.stdout.strip()
        wanted = [*MODULES, "cgi" if mpm == "prefork" else "cgid", *modules]
        load = "\n".join(f"LoadModule {name}_module {folder}/mod_{name}.so" for name in wanted)
        if mpm != "prefork":
            load += f"\nScriptSock {self.root}/cgid.sock"
        values = {"root": self.root, "mpm": mpm, "modules": folder, "build": build(), "cgi": cgi, "user": user}
        text = CONFIGURATION.format(load=load, more=more.format(**values), **values)
        self.configuration = self.root / "httpd.conf"
        self.configuration.write_text(text)
        self._process = None

    def __enter__(self):
        # A group of its own: Apache ends by a signal to its whole group.
        command = [path_of("apache2"), "-f", str(self.configuration), "-DFOREGROUND"]
        self._process = subprocess.Popen(command, start_new_session=True)
        self.wait_for(lambda: "resuming normal operations" in self.log.read_text() and self.children(), "Apache to run")
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self.discard()

    def stop(self):
        """`apachectl stop`. Apache forgets a stop that comes while it begins a restart, so that it is said again."""
        for _ in range(DEADLINE_S):
            if self._process.poll() is not None:
                return
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._process.wait(0)

    def discard(self):
        """Removes the directory; for configurations that are never started."""
        self._directory.cleanup()

    def run(self):
        """Starts it although it is expected to end by itself: (exit status, what it says)."""
        command = [path_of("apache2"), "-f", str(self.configuration), "-DFOREGROUND"]
        run = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=DEADLINE_S)
        return run.returncode, run.stderr + self.log.read_text()

    @property
    def pid(self):
        """Of the parent process."""
        return self._process.pid

    def wait_for(self, condition, what):
        """Until `condition` holds; fails with what the log says if it never does."""
        if not eventually(lambda: condition() or self._process.poll() is not None) or self._process.poll() is not None:
            raise AssertionError(f"waited for {what}; the log says: {self.log.read_text()}")

    def test_configuration(self):
        """What `apachectl configtest` does: (exit status, what it says)."""
        command = [path_of("apache2"), "-t", "-f", str(self.configuration)]
        run = subprocess.run(command, capture_output=True, text=True)
        return run.returncode, run.stderr + run.stdout

    def reload(self):
        """`apachectl graceful`."""
        os.kill(self.pid, signal.SIGUSR1)

    def access(self):
        """Lines of the access log."""
        return (self.root / "access.log").read_text().splitlines()

    def children(self):
        """Numbers of the processes that the parent has started."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
