"""One application in all its configurations, and what came of it."""

import json
import signal
import tomllib
from pathlib import Path

from compare import Allowance, differences, unexplained

from .application import PROTOCOLS, ROOT, TRIALS
from .processes import Process, tail
from .servers import Server, way
from .steps import Failure

_COMMON = TRIALS / "common.toml"
_TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
# How much of a long text is shown round the first difference.
_SHOWN = 160


class Trial:
    """Starts an application in each configuration, has it used, and compares."""

    def __init__(self, application, installed, binary, files, options):
        self._application, self._installed, self._binary, self._files = application, installed, binary, files
        self._only = options.only
        pairs = application.configurations(options.quick)
        self._pairs = [pair for pair in pairs if options.way in way(*pair)]
        self._whole = not (options.only or options.way or options.quick)
        entries = tomllib.loads(_COMMON.read_text())["allow"]
        self._common = [Allowance(entry) for entry in entries]

    def run(self):
        """Everything: a Report."""
        report = Report(self._application, self._pairs)
        try:
            with self._server("alone") as server:
                server.alone()
                alone = self._use(server, "alone", "http/1.1")
            report.take_alone(alone, self._only)
            for group in self._groups():
                self._behind(report, alone, group)
        except Failure as error:
            report.broken(str(error))
        if self._whole:
            report.idle()
        return report

    def _groups(self):
        """Configurations that one start is enough for: what keeps nothing does not know that it was used before."""
        if not self._application.keeps_nothing:
            return [[pair] for pair in self._pairs]
        ways = dict.fromkeys(transport for transport, _ in self._pairs)
        return [[pair for pair in self._pairs if pair[0] == transport] for transport in ways]

    def _server(self, name):
        directory = self._installed.directory / "runs" / _stem(name)
        return Server(self._application, self._installed, directory)

    def _behind(self, report, alone, group):
        transport = group[0][0]
        with self._server(way(*group[0])) as server:
            try:
                server.behind(self._binary, transport, self._files)
                for _, protocol in group:
                    found = self._use(server, transport, protocol)
                    before = len(report.failures)
                    report.compare(way(transport, protocol), alone, found, self._common)
                    if len(report.failures) > before:
                        self._explain(report, server)
            except Failure as error:
                self._explain(report, server)
                report.broken(f"{way(*group[0])}: {error}")

    def _explain(self, report, server):
        """What was written where something has failed; of the first failure, since all of them are mostly one."""
        server.describe(self._binary)
        if not report.logs:
            report.logs = [(process.log, tail(process.log)) for process in server.processes]

    def _use(self, server, transport, protocol):
        """Does what use.py says. Raises Failure when that does not come to its end."""
        stem = _stem(way(transport, protocol))
        directory = server.directory / f"user-{stem}"
        directory.mkdir()
        log, results = directory.with_suffix(".log"), directory.with_suffix(".json")
        setup = {
            "use": str(self._application.folder / "use.py"),
            "only": self._only,
            "base": server.bases[protocol],
            "protocol": protocol,
            "behind": transport != "alone",
            "authority": str(self._files[0]),
            "root": str(ROOT),
            "directory": str(directory),
            "data": str(server.directory / "data"),
            "build": str(self._installed.build),
            "results": str(results),
            "reload": server.control(self._binary, "reload"),
            "status": server.control(self._binary, "status", "--json"),
        }
        words = [str(self._installed.client), "-m", "kit.user", str(directory / "setup.json")]
        Path(words[-1]).write_text(json.dumps(setup))
        # Clients of all languages get the authority to trust.
        trust = dict.fromkeys(_TRUST, str(self._files[0]))
        home = {"PYTHONPATH": str(TRIALS), "PYTHONUNBUFFERED": "1", "HOME": str(directory)}
        environment = {**server.environment(), **home, **trust}
        process = Process("use.py", words, directory, environment, log)
        try:
            status = process.end(self._application.seconds)
            if status is None:
                # It says where it is.
                process.signal(signal.SIGUSR1)
                process.end(1)
        finally:
            process.stop()
        if status != 0 or not results.exists():
            how = f"not over after {self._application.seconds} s" if status is None else f"status {status}"
            raise Failure(f"use.py, {way(transport, protocol)}: {how}; {log}:\n{tail(log)}")
        return json.loads(results.read_text())


class Report:
    """What came of an application."""

    def __init__(self, application, pairs):
        self._application, self._pairs = application, pairs
        self.failures, self.logs, self.steps = [], [], []
        self._known, self._compared, self._configurations = set(), 0, []

    def take_alone(self, found, only=""):
        """What fails alone says nothing about Maitred, and is a mistake of the trial. `only`: which steps were asked for."""
        self.steps = [(entry["step"], entry["told"]) for entry in found["steps"]]
        for entry in found["steps"]:
            if entry["failure"]:
                self.failures.append(f"alone: {entry['step']}: {entry['failure']}")
        if not found["steps"]:
            self.failures.append(f"no step of use.py has {only!r} in its name")
        if not found["reloads"] and not only:
            self.failures.append("no step of use.py calls user.reload()")

    def compare(self, name, alone, behind, common):
        """One configuration against the application alone."""
        self._configurations.append(name)
        for one, other in zip(alone["steps"], behind["steps"]):
            case = f"{one['step']}, {name}"
            if one["failure"]:
                continue
            wrong = list(self._wrong(case, one, other, common))
            if any(known.covers(case, ("failure", "-", "-")) for known in self._application.fails):
                self._expected(case, wrong)
                continue
            self._compared += 1
            if wrong:
                self.failures.append("\n    ".join([case, *wrong]))

    def _expected(self, case, wrong):
        for known in self._application.fails:
            if wrong and known.covers(case, ("failure", "-", "-")):
                known.used += 1
                self._known.add(known.why)

    def _wrong(self, case, one, other, common):
        if other["failure"]:
            yield other["failure"]
            return
        left, right = one["seen"], other["seen"]
        if [label for label, _ in left] != [label for label, _ in right]:
            yield f"not the same things were seen: {[label for label, _ in left]}, {[label for label, _ in right]}"
            return
        for (label, before), (_, after) in zip(left, right):
            found = differences([before], [after])
            for field, value, instead in unexplained(f"{case}, {label}", found, [*common, *self._application.allowed]):
                yield f"{label}: {field}: {_first_difference(value, instead)}"

    def broken(self, text):
        """The trial itself came to an end too early."""
        self.failures.append(text)

    def idle(self):
        """An allowance that explains nothing hides what it may explain one day; a known failure that is none is good news."""
        for allowance in self._application.allowed:
            if not allowance.used:
                self.failures.append(f"nothing differs any more: [[allow]] {allowance}")
        for known in self._application.fails:
            if not known.used:
                self.failures.append(f"does not fail any more: [[fails]] {known}")

    def good(self):
        """Whether everything was as it has to be."""
        return not self.failures and self._compared > 0

    def text(self, seconds):
        """For people."""
        application = self._application
        head = f"== {application.name} ({application.package} {application.version()}): "
        head += f"{len(self.steps)} steps, {len(self._configurations)} configurations, {seconds:.0f} s: "
        head += "passed" if self.good() else f"{len(self.failures)} FAILED"
        lines = [head, *(f"  FAILED {failure}" for failure in self.failures)]
        lines += [f"  the end of {log}:\n{text}" for log, text in self.logs]
        return "\n".join([*lines, *(f"  known: {why}" for why in sorted(self._known))])

    def row(self):
        """For the table of applications; None if not everything was tried, or something failed."""
        wanted = [way(*pair) for pair in self._application.configurations(False)]
        if self._configurations != wanted or not self.good():
            return None
        return row(self._application, self.steps, sorted(self._known))


def row(application, steps, known):
    """Cells of an application's row."""
    limits = [] if application.protocols == PROTOCOLS else [f"over {', '.join(application.protocols)} only"]
    return {
        "application": application.title,
        "version": application.version(),
        "by": application.by,
        "tried": "; ".join(told for _, told in steps),
        "note": "; ".join(filter(None, [application.note, *limits, *(f"fails: {why}" for why in known)])),
    }


def _stem(name):
    """Of files."""
    return name.replace(", ", "-").replace("/", "").replace(".", "")


def _first_difference(value, instead):
    """Two texts; of long ones what stands round the first difference."""
    if max(len(value), len(instead)) <= 2 * _SHOWN:
        return f"alone {value!r}, behind {instead!r}"
    at = next((n for n, (one, other) in enumerate(zip(value, instead)) if one != other), min(len(value), len(instead)))
    begin = max(0, at - _SHOWN // 4)
    shown = [text[begin : begin + _SHOWN] for text in (value, instead)]
    return f"from byte {begin}, alone {shown[0]!r} ({len(value)}), behind {shown[1]!r} ({len(instead)})"
