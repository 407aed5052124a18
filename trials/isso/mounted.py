"""Isso below /isso, as gunicorn serves it by itself."""

import os

os.environ["ISSO_SETTINGS"] = os.environ["HOME"] + "/isso.cfg"

from isso.run import application as isso  # noqa: E402
from werkzeug.exceptions import NotFound  # noqa: E402
from werkzeug.middleware.dispatcher import DispatcherMiddleware  # noqa: E402

application = DispatcherMiddleware(NotFound(), {"/isso": isso})
