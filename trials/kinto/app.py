"""Kinto as a WSGI application."""

import os

from kinto import main
from kinto.core.utils import read_env  # noqa: F401
from pyramid.paster import get_appsettings

application = main({}, **get_appsettings(os.environ["HOME"] + "/kinto.ini", "main"))
