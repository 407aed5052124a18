"""The containers of docs/containers.md, built by Buildah from the files in `examples/container`, and run as their compose files say.

    MAITRED_WHEEL=FILE MAITRED_IMAGE=FILE.oci.tar MAITRED_BASE=FILE.tar MAITRED_STORAGE=DIR containers.py

`cargo xtask containers` makes all of these and runs this, as root, in a network namespace of its own. A base image with Python
stands in for the one that the files name. A runtime for containers (crun) cannot start on every machine that tests run on, so
that `Container` does what one does: mounts, a process namespace, an account, capabilities.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "container"
DEADLINE_S = 120
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Of prctl(2) and of capabilities(7).
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAPABILITIES = 24, 38, range(64)
# What a compose file may say of a service. The first ones are carried out here; the others need a real runtime.
CARRIED_OUT = {"build", "image", "read_only", "tmpfs", "volumes", "cap_drop", "security_opt", "stop_grace_period", "healthcheck"}
LEFT_OUT = {"ports", "expose", "restart", "mem_limit", "cpus", "depends_on", "init"}


def compose(text):
    """As much of YAML as the compose files have: tables by indentation, and values in one line. Anything else is an error."""
    whole = {}
    tables = [(-1, whole)]
    for line in text.splitlines():
        if not line.strip():
            continue
        found = re.fullmatch(r'( *)([\w-]+):(?: (\[.*\]|[^\[\]{}&*|>#"\']+))?', line)
        assert found, f"this line is not understood: {line!r}"
        indent, key, value = len(found[1]), found[2], found[3]
        while tables[-1][0] >= indent:
            tables.pop()
        if value is None:
            tables.append((indent, {}))
            tables[-2][1][key] = tables[-1][1]
        elif value.startswith("["):
            tables[-1][1][key] = [item.strip().strip('"') for item in value[1:-1].split(",")]
        else:
            tables[-1][1][key] = value
    return whole


def run(*words, **options):
    """What a program has written, when it has ended well."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, **options)
    assert done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def buildah(*words):
    """Buildah with a storage of its own, which needs no file system of a special kind."""
    storage = Path(os.environ["MAITRED_STORAGE"])
    places = ["--root", storage / "root", "--runroot", storage / "run", "--storage-driver", "vfs"]
    return run("buildah", *places, *words)


def until(what, condition, container=None):
    """Waits for a condition, and gives back what it gives."""
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        log = container.said("err") if container and time.monotonic() >= end else ""
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}\n{log}"
    return found


def ask(path, data=None, port=8080):
    """The body of an answer; None where nobody answers yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=DEADLINE_S) as response:
            return response.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def mount(*words):
    run("mount", *words)


def enter(order):
    """Becomes the first process of a container; called in namespaces of its own."""
    root = Path(order["root"])
    mount("--bind", root, root)
    for place, kind in (("proc", "proc"), ("dev", "tmpfs")):
        (root / place).mkdir(exist_ok=True)
        mount("-t", kind, kind, root / place)
    (root / "sys").mkdir(exist_ok=True)
    mount("--rbind", "/sys", root / "sys")
    for name in DEVICES:
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", root / "dev" / name)
    for source, target, readonly in order["binds"]:
        mount("--bind", source, root / target)
        if readonly:
            mount("-o", "remount,bind,ro", root / target)
    for place in order["tmpfs"]:
        (root / place.lstrip("/")).mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "nosuid,nodev,noexec,mode=1777", "tmpfs", root / place.lstrip("/"))
    if order["read_only"]:
        mount("-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir(order["directory"])
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if order["no_new_privileges"]:
        assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if order["drop_all"]:
        for capability in CAPABILITIES:
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setgid(order["gid"])
    os.setuid(order["uid"])
    os.execvpe(order["command"][0], order["command"], order["environment"])


class Container:
    """One container of an image, as a service of a compose file describes it."""

    def __init__(self, test, image, service, beside, command=None):
        unknown = service.keys() - CARRIED_OUT - LEFT_OUT
        assert not unknown, f"what a runtime would do with {unknown} is not known here"
        self.test, self.service, self.beside = test, service, beside
        self.config = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
        self.name = buildah("from", "--pull-never", image).strip()
        test.addCleanup(buildah, "rm", self.name)
        self.root = Path(buildah("mount", self.name).strip())
        self.logs = tempfile.TemporaryDirectory()
        test.addCleanup(self.logs.cleanup)
        self.user = [int(part) for part in self.config["User"].split(":")]
        self.environment = dict(pair.split("=", 1) for pair in self.config["Env"] or [])
        self.directory = self.config["WorkingDir"] or "/"
        words = command or [*(self.config.get("Entrypoint") or []), *self.config["Cmd"]]
        order = {
            "root": str(self.root),
            "binds": [*self.volumes(), *self.names()],
            "tmpfs": service.get("tmpfs", []),
            "read_only": service.get("read_only") == "true",
            "no_new_privileges": "no-new-privileges:true" in service.get("security_opt", []),
            "drop_all": "ALL" in service.get("cap_drop", []),
            "uid": self.user[0],
            "gid": self.user[1],
            "directory": self.directory,
            "command": words,
            "environment": self.environment,
        }
        enters = ["unshare", "--mount", "--pid", "--fork", sys.executable, __file__, "enter", json.dumps(order)]
        with open(self.file("out"), "wb") as out, open(self.file("err"), "wb") as err:
            self.outer = subprocess.Popen(enters, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children")
        self.pid = int(until("the first process", lambda: children.read_text().strip() or self.ended()))
        test.addCleanup(self.kill)

    def file(self, name):
        return Path(self.logs.name) / name

    def ended(self):
        assert self.outer.poll() is None, f"it has ended with {self.outer.returncode}: {self.said('err')}"

    def said(self, name):
        return self.file(name).read_text(errors="replace")

    def volumes(self):
        """What is bound where. A named volume begins as a copy of what the image has there, as runtimes make it."""
        for volume in self.service.get("volumes", []):
            source, target, *flags = volume.split(":")
            inside = self.root / target.lstrip("/")
            if source.startswith("."):
                source = self.beside / source
                inside.mkdir(parents=True, exist_ok=True)
            else:
                source = self.file(f"volume-{source}")
                assert inside.is_dir(), f"the image has no {target}, so that its volume would belong to root"
                run("cp", "-a", inside, source)
            yield str(source), target.lstrip("/"), "ro" in flags

    def names(self):
        """The names of services, which a runtime answers by a server of its own. All containers share one network here."""
        for name, text in (("hosts", "127.0.0.1 localhost app web\n"), ("resolv.conf", "nameserver 127.0.0.1\n")):
            self.file(name).write_text(text)
            place = self.root / "etc" / name
            place.parent.mkdir(exist_ok=True)
            place.touch()
            yield str(self.file(name)), f"etc/{name}", True

    def execute(self, *words):
        """A further process in the container, as `docker exec` starts it: its status."""
        enters = ["nsenter", "--target", self.pid, "--mount", "--pid", "--root", f"--wd=/proc/{self.pid}/root{self.directory}"]
        account = ["--setuid", self.user[0], "--setgid", self.user[1], "--"]
        command = [str(word) for word in (*enters, *account, *words)]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=DEADLINE_S, check=False).returncode

    def is_healthy(self):
        """Whether the health check is passed: that of the compose file, or the image's own."""
        self.ended()
        own = self.config.get("Healthcheck") or {}
        kind, *words = self.service.get("healthcheck", {}).get("test") or own["Test"]
        return self.execute(*({"CMD": [], "CMD-SHELL": ["/bin/sh", "-c"]}[kind]), *words) == 0

    def status(self, key):
        text = Path(f"/proc/{self.pid}/status").read_text()
        return re.search(rf"^{key}:\s*(.*)$", text, re.MULTILINE)[1].split()

    def zombies(self):
        """Children of the first process that nobody has waited for."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        states = [Path(f"/proc/{child}/stat") for child in children]
        return [place for place in states if place.exists() and place.read_text().rsplit(")", 1)[1].split()[0] == "Z"]

    def stop(self):
        """The signal that a runtime sends first: the status of the end, and how long it took."""
        began = time.monotonic()
        os.kill(self.pid, getattr(signal, self.config.get("StopSignal") or "SIGTERM"))
        return self.outer.wait(DEADLINE_S), time.monotonic() - began

    def kill(self):
        """Ends all of it: with the first process of a namespace, the kernel ends the others."""
        if self.outer.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.outer.wait(DEADLINE_S)


class Containers(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.files = Path(cls.holder.name) / "container"
        shutil.copytree(EXAMPLE, cls.files)
        shutil.copy(os.environ["MAITRED_WHEEL"], cls.files)
        base = buildah("from", "scratch").strip()
        buildah("add", "--quiet", base, os.environ["MAITRED_BASE"], "/")
        buildah("commit", "--quiet", base, "localhost/base")
        buildah("rm", base)

    def services(self, directory):
        """The services of the compose file there, and the images that they are built from."""
        services = compose((directory / "compose.yaml").read_text())["services"]
        for name, service in services.items():
            if "build" in service:
                words = ["--isolation", "chroot", "--format", "docker", "--build-arg", "BASE=localhost/base", "--pull-never"]
                buildah("build", "--quiet", *words, "--tag", f"localhost/{name}", directory / service["build"])
        return services

    def check_account(self, container):
        """No process of root, no capability, and none to be had."""
        self.assertEqual(container.status("NSpid")[-1], "1")
        self.assertEqual(set(container.status("Uid") + container.status("Gid")), {"65532"})
        for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(container.status(key)[0], 16), 0, key)
        self.assertEqual(container.status("NoNewPrivs"), ["1"])

    def check_end(self, container):
        """A stop is a stop, well before the runtime would kill it."""
        seconds = float(container.service["stop_grace_period"].removesuffix("s"))
        status, took = container.stop()
        self.assertEqual(status, 0, container.said("err"))
        self.assertLess(took, seconds)

    def test_1_an_application_as_a_pool_in_the_container(self):
        web = Container(self, "localhost/web", self.services(self.files)["web"], self.files)
        until("healthy", web.is_healthy)
        self.check_account(web)
        said = json.loads(until("an answer", lambda: ask("/")))
        self.assertEqual((said["uid"], said["parent"], said["read_only"]), (65532, 1, True))
        self.assertEqual(said["writes"], ["/tmp", "/var/cache/maitred"])
        self.assertEqual(json.loads(ask("/", b"x" * 3_000_000))["received"], 3_000_000)
        # A process whose parent has gone belongs to the first one, which has to wait for it.
        self.assertEqual(web.execute("sh", "-c", "(exit 7) & exit 0"), 0)
        until("no zombies", lambda: not web.zombies())
        os.kill(web.pid, signal.SIGHUP)
        until("the reload", lambda: "worker process 2 has taken over" in web.said("err"), web)
        self.assertIsNotNone(ask("/after"))
        self.check_end(web)
        requests = [json.loads(line) for line in web.said("out").splitlines()]
        self.assertIn("/after", [request.get("path") or request.get("target") for request in requests])

    def test_2_an_application_in_another_container(self):
        directory = self.files / "proxied"
        services = self.services(directory)
        image = buildah("pull", "--quiet", f"oci-archive:{os.environ['MAITRED_IMAGE']}").strip()
        buildah("tag", image, f"localhost/{services['web']['image']}")
        Container(self, "localhost/app", services["app"], directory)
        web = Container(self, f"localhost/{services['web']['image']}", services["web"], directory)
        until("healthy", web.is_healthy)
        self.check_account(web)
        said = until("an answer of the application", lambda: ask("/a/b"))
        self.assertEqual(said, "/a/b of 127.0.0.1:8080 for 127.0.0.1\n")
        # `docker kill -s HUP` after a change of the mounted directory.
        place = directory / "maitred" / "maitred.toml"
        changed = place.read_text().replace("[[site.route]]", '[[site.route]]\npath = "/new"\nrespond = { body = "new" }\n\n[[site.route]]')
        place.write_text(changed)
        os.kill(web.pid, signal.SIGHUP)
        until("the new configuration", lambda: ask("/new") == "new")
        self.check_end(web)
        # A port below 1024: as Docker and Podman set up the network of a container, and as the kernel does by itself.
        place.write_text(changed.replace(":8080", ":80"))
        allowed = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        self.addCleanup(allowed.write_text, allowed.read_text())
        allowed.write_text("0")
        web = Container(self, f"localhost/{services['web']['image']}", services["web"], directory)
        until("an answer at port 80", lambda: ask("/new", port=80) == "new")
        self.check_end(web)
        allowed.write_text("1024")
        web = Container(self, f"localhost/{services['web']['image']}", services["web"], directory)
        self.assertNotEqual(web.outer.wait(DEADLINE_S), 0)
        self.assertIn("permission", web.said("err").lower())

    def test_3_compose_files_are_read_or_refused(self):
        text = "services:\n  web:\n    build: .\n    tmpfs: [\"/tmp\", \"/run\"]\n\nvolumes:\n  cache:\n"
        whole = {"services": {"web": {"build": ".", "tmpfs": ["/tmp", "/run"]}}, "volumes": {"cache": {}}}
        self.assertEqual(compose(text), whole)
        for wrong in ("a: &b\n", "- a\n", "a: {b: c}\n", "a: |\n"):
            with self.assertRaises(AssertionError):
                compose(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] == ["enter"]:
        enter(json.loads(sys.argv[2]))
    else:
        unittest.main(verbosity=2)
