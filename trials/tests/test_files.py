"""Every application's folder can be read, and the table of applications is about what stands there."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit import table  # noqa: E402
from kit.application import Application, Wrong, names  # noqa: E402


class Folders(unittest.TestCase):
    def test_every_file_is_understood_and_every_version_is_pinned(self):
        self.assertGreater(len(names()), 0)
        for name in names():
            with self.subTest(name):
                application = Application(name)
                self.assertTrue((application.folder / "use.py").exists())
                if not application.missing():
                    self.assertRegex(application.version(), r"^\d")

    def test_packages_are_pinned(self):
        for name in names():
            folder = Application(name).folder
            for file in (folder / "requirements.txt", folder / "client.txt"):
                lines = file.read_text().splitlines() if file.exists() else []
                loose = [line for line in lines if line.strip() and not line.startswith("#") and "==" not in line]
                self.assertEqual(loose, [], f"{file}: a version of each")

    def test_titles_are_different(self):
        titles = [Application(name).title for name in names()]
        self.assertEqual(len(set(titles)), len(titles))


class Table(unittest.TestCase):
    def test_rows_are_about_applications_that_are_here_in_these_versions(self):
        versions = {}
        for name in names():
            application = Application(name)
            try:
                versions[application.title] = application.version()
            except Wrong:
                # Debian's, and not installed here.
                versions[application.title] = None
        for title, cells in table.rows(table.DOCUMENT.read_text()).items():
            with self.subTest(title):
                self.assertIn(title, versions, "the application is gone: cargo xtask trials --write-docs")
                if versions[title] and "Debian" not in cells[1]:
                    self.assertEqual(cells[1], versions[title], "another version by now: cargo xtask trials --write-docs")


if __name__ == "__main__":
    unittest.main()
