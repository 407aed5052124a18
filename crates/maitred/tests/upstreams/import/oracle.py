"""Reads configurations of nginx with crossplane: the directory is the argument, standard output has JSON by file name.

A tree is [name, [argument, ...], line, [directive, ...] or null] for each directive; null is a text that crossplane refuses, and
"other" one that it reads otherwise than nginx does.
"""

import json
import pathlib
import re
import sys

import crossplane

UNESCAPED = {"t": "\t", "r": "\r", "n": "\n", '"': '"', "'": "'", "\\": "\\"}


def unescaped(text):
    """As nginx leaves it; crossplane keeps backslashes."""
    return re.sub(r"\\(.)", lambda found: UNESCAPED.get(found[1], found[0]), text, flags=re.S)


def tree(directives):
    found = []
    for directive in directives:
        block = directive.get("block")
        args = [unescaped(arg) for arg in directive["args"]]
        lua = directive["directive"].endswith("_by_lua_block")
        inside = [] if lua else None if block is None else tree(block)
        found.append([unescaped(directive["directive"]), [] if lua else args, directive["line"], inside])
    return found


def of_other_opinion(text):
    """A brace that is glued to a word is a part of it for nginx; crossplane ends the word there, and lets a variable without an
    end take the rest of the file. A `;` behind another one is nothing for `maitred import`, and an error for the others."""
    bare = re.sub(r"\$\{[^}\s;]*\}", "", text)
    return bool(re.search(r"[^\s;{}]\}", bare)) or "${" in bare or bool(re.search(r"[;{}]\s*;", bare))


def has_no_name(directives):
    """crossplane takes signs behind one another for a directive: `;;` is one with the name `;`."""
    return any(one["directive"] in ";#{}" or has_no_name(one.get("block") or []) for one in directives)


def main():
    found = {}
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        if of_other_opinion(path.read_text(errors="replace")):
            found[path.name] = "other"
            continue
        parsed = crossplane.parse(
            str(path), single=True, check_ctx=False, check_args=False, catch_errors=True, comments=False
        )
        directives = parsed["config"][0]["parsed"]
        found[path.name] = None if parsed["errors"] else "other" if has_no_name(directives) else tree(directives)
    json.dump(found, sys.stdout)


main()
