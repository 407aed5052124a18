"""The table of applications in docs/applications.md."""

from .application import ROOT

DOCUMENT = ROOT / "docs" / "applications.md"
_BEGIN, _END = "<!-- trials -->", "<!-- end -->"
_HEAD = ("application", "version", "behind Maitred by", "what was tried", "note")


class NoPlace(Exception):
    """The document has no place for the table."""


def _parts(text):
    before, begin, rest = text.partition(_BEGIN)
    table, end, after = rest.partition(_END)
    if not begin or not end:
        raise NoPlace(f"{DOCUMENT} has no {_BEGIN} with {_END} after it")
    return before, table, after


def rows(text):
    """Cells of the rows that stand there, by the application's title."""
    lines = [line for line in _parts(text)[1].splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return {row[0]: row for row in cells}


def write(new, known):
    """Puts in these rows, and takes out those of applications that are not among the `known` titles."""
    text = DOCUMENT.read_text()
    before, _, after = _parts(text)
    found = rows(text)
    for row in new:
        found[row["application"]] = [row[name] for name in ("application", "version", "by", "tried", "note")]
    kept = [cells for title, cells in found.items() if title in known]
    kept.sort(key=lambda cells: cells[0].lower())
    lines = ["| " + " | ".join(cells) + " |" for cells in (_HEAD, *kept)]
    lines.insert(1, "|" + "---|" * len(_HEAD))
    DOCUMENT.write_text(f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}")
