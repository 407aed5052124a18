"""Flask: /bytes/N is N bytes, /hello a text."""

from flask import Flask

CONTENT = b"x" * (1 << 20)
app = Flask(__name__)


@app.get("/hello")
def hello():
    return "Hello from Flask\n"


@app.get("/bytes/<int:count>")
def content(count):
    return app.response_class(CONTENT[:count], mimetype="text/plain")
