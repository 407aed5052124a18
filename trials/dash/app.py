"""What Dash is used for: fields, a graph, an upload, a download, what changes by itself; and Flask-Admin beside it."""

import base64
import os
from pathlib import Path

import flask
from dash import Dash, Input, Output, State, dcc, html
from flask_admin import Admin
from flask_admin.contrib.fileadmin import FileAdmin

FILES = Path(os.environ["HOME"]) / "files"
FILES.mkdir(exist_ok=True)

server = flask.Flask(__name__)
server.config["SECRET_KEY"] = "not a secret"
app = Dash(__name__, server=server)
app.layout = html.Div(
    [
        dcc.Input(id="name", value=""),
        html.Div(id="greeting"),
        html.Button("Go", id="go"),
        html.Div(id="clicks"),
        dcc.Graph(id="graph"),
        dcc.Upload(html.Div("Drop"), id="upload", max_size=-1),
        html.Div(id="file"),
        html.Button("Download", id="ask"),
        dcc.Download(id="download"),
        dcc.Interval(id="interval", interval=300),
        html.Div(id="tick"),
    ]
)
Admin(server, name="Files").add_view(FileAdmin(str(FILES), name="All"))


@app.callback(Output("greeting", "children"), Input("name", "value"))
def greet(name):
    """A field."""
    return f"hello {name}"


@app.callback(Output("clicks", "children"), Output("graph", "figure"), Input("go", "n_clicks"))
def click(clicks):
    """A button and a graph."""
    return f"clicked {clicks}", {"data": [{"y": list(range(clicks or 0))}]}


@app.callback(Output("file", "children"), Input("upload", "contents"), State("upload", "filename"), prevent_initial_call=True)
def upload(contents, name):
    """A file, which comes as base64 in JSON."""
    return f"{name} {len(base64.b64decode(contents.split(',')[1]))}"


@app.callback(Output("download", "data"), Input("ask", "n_clicks"), prevent_initial_call=True)
def download(_):
    """The other way."""
    return dcc.send_bytes(bytes(100_000), "zeros.bin")


@app.callback(Output("tick", "children"), Input("interval", "n_intervals"))
def tick(number):
    """What changes by itself."""
    return f"tick {number}"
