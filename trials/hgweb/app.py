"""hgweb as a WSGI application."""

import os

from mercurial.hgweb import hgweb

application = hgweb(os.fsencode(os.environ["HOME"] + "/hgweb.config"))
