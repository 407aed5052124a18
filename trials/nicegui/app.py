"""A page with a counter, a field, an upload and a clock."""

import hashlib

from fastapi import FastAPI
from nicegui import ui

app = FastAPI()
everybody = {"count": 0}


@ui.page("/")
def page():
    """What each visitor has."""
    mine = ui.label("mine 0")
    counted = {"n": 0}

    def count():
        counted["n"] += 1
        everybody["count"] += 1
        mine.text = f"mine {counted['n']}"

    ui.button("count", on_click=count)
    ui.label().bind_text_from(everybody, "count", lambda n: f"all {n}")
    greeting = ui.label("nobody")
    ui.input("name", on_change=lambda event: greeting.set_text(f"hello {event.value}")).classes("name")

    async def uploaded(event):
        data = await event.file.read()
        greeting.set_text(f"{event.file.name} {len(data)} {hashlib.sha256(data).hexdigest()[:8]}")

    ui.upload(on_upload=uploaded, auto_upload=True, max_file_size=50_000_000)


ui.run_with(app, title="Trial", reconnect_timeout=30)
