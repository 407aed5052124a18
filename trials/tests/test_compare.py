"""What counts as a difference between an application alone and behind Maitred."""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.application import Allowance  # noqa: E402
from kit.trial import Report  # noqa: E402


def _found(*labels, failure=None, **fields):
    step = {"step": "login", "told": "login", "seconds": 0.1, "failure": failure, "seen": [[label, dict(fields)] for label in labels]}
    return {"steps": [step], "reloads": 1}


class Compare(unittest.TestCase):
    def _report(self, allowed=(), fails=()):
        application = SimpleNamespace(
            allowed=[Allowance(entry) for entry in allowed], fails=[Allowance({"field": "*", **entry}) for entry in fails]
        )
        return Report(application, [])

    def test_the_same_is_good(self):
        report = self._report()
        report.take_alone(_found("page", status="200"))
        report.compare("auto, https/2", _found("page", status="200"), _found("page", status="200"), [])
        self.assertTrue(report.good(), report.failures)

    def test_another_value_a_missing_observation_and_a_failure_are_bad(self):
        alone = _found("page", status="200")
        for behind in (_found("page", status="500"), _found(), _found("page", failure="Late: waited", status="200")):
            report = self._report()
            report.compare("auto, https/2", alone, behind, [])
            self.assertFalse(report.good())

    def test_nothing_compared_is_bad(self):
        self.assertFalse(self._report().good())

    def test_a_difference_with_a_reason_is_good_and_a_reason_without_a_difference_is_bad(self):
        entry = {"field": "status", "cases": ["login, *, https/2, page"], "why": "because"}
        report = self._report(allowed=[entry])
        report.compare("auto, https/2", _found("page", status="200"), _found("page", status="201"), [])
        report.idle()
        self.assertTrue(report.good(), report.failures)
        report = self._report(allowed=[entry])
        report.compare("auto, http/1.1", _found("page", status="200"), _found("page", status="200"), [])
        report.idle()
        self.assertFalse(report.good())

    def test_a_known_failure_has_to_fail(self):
        entry = {"cases": ["login, *"], "why": "a mistake that is known"}
        for status, good in (("500", True), ("200", False)):
            report = self._report(fails=[entry])
            report.compare("auto, https/2", _found("page", status="200"), _found("page", status=status), [])
            report.idle()
            self.assertEqual(not report.failures, good)

    def test_a_trial_without_a_reload_is_bad(self):
        report = self._report()
        report.take_alone({**_found("page", status="200"), "reloads": 0})
        self.assertEqual(len(report.failures), 1)

    def test_some_steps_alone_need_no_reload_and_there_has_to_be_one(self):
        report = self._report()
        report.take_alone({**_found("page", status="200"), "reloads": 0}, "log")
        self.assertEqual(report.failures, [])
        report.take_alone({"steps": [], "reloads": 0}, "logout")
        self.assertEqual(len(report.failures), 1)


if __name__ == "__main__":
    unittest.main()
