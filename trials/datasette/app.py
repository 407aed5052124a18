"""datasette as an ASGI application."""

import os

from datasette.app import Datasette

app = Datasette([os.environ["DATABASE"]], settings={"max_csv_mb": 0}, secret="s").app()
