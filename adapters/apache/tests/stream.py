#!/usr/bin/env python3
"""A CGI program that writes, waits for a write to the pipe that the query names, and writes again."""

import os
import sys

path = os.environ["QUERY_STRING"]
os.stat(path)
sys.stdout.write("Content-Type: text/html\r\n\r\nfirst\n")
sys.stdout.flush()
with open(path, encoding="ascii") as gate:
    gate.read()
sys.stdout.write("second\n")
