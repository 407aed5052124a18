"""Flask as its users write it: sessions, uploads, the usual snippet for server-sent events, and a WebSocket by flask-sock."""

import hashlib
import queue

from flask import Flask, Response, abort, flash, get_flashed_messages, redirect, request
from flask import send_file, session, stream_with_context, url_for
from flask_sock import Sock

app = Flask(__name__)
app.secret_key = "not so secret"
sock = Sock(app)


@app.get("/")
def home():
    """Who is logged in."""
    return {"user": session.get("user"), "said": get_flashed_messages(), "url": url_for("home", _external=True)}


@app.post("/login")
def login():
    """A session."""
    if request.form["password"] != "right":
        abort(403)
    session["user"] = request.form["user"]
    flash("welcome")
    return redirect(url_for("home"))


@app.post("/upload")
def upload():
    """A file and what has come of it."""
    file = request.files["file"]
    data = file.read()
    return {"name": file.filename, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@app.get("/download")
def download():
    """A file with a name."""
    return send_file(__file__, as_attachment=True, download_name="grüße.py", mimetype="text/x-python")


@app.get("/events")
def events():
    """The snippet that is copied most."""
    waiting = queue.SimpleQueue()

    def stream():
        for number in range(20):
            try:
                waiting.get(timeout=0.1)
            except queue.Empty:
                pass
            yield f"id: {number}\ndata: {request.args['who']} {number}\n\n"

    head = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
    return Response(stream_with_context(stream()), mimetype="text/event-stream", headers=head)


@sock.route("/echo")
def echo(ws):
    """Says everything again."""
    while True:
        data = ws.receive()
        if data == "close":
            ws.close(4000, "as you wish")
        ws.send(data)
