"""A form, a stream of results, a file."""

import hashlib

import gradio
from fastapi import FastAPI


def greet(name):
    """At once."""
    return f"hello {name}"


def count(_):
    """One result after another."""
    for number in range(1, 6):
        yield f"counted {number}"


def length(path):
    """Of a file."""
    with open(path, "rb") as file:
        data = file.read()
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:8]}"


with gradio.Blocks() as blocks:
    name = gradio.Textbox(label="name", elem_id="name")
    greeting = gradio.Textbox(label="greeting", elem_id="greeting")
    gradio.Button("greet", elem_id="greet").click(greet, name, greeting, api_name="greet")
    gradio.Button("count", elem_id="count").click(count, name, greeting, api_name="count")
    file = gradio.File(label="file", elem_id="file")
    file.upload(length, file, greeting, api_name="length")

app = gradio.mount_gradio_app(FastAPI(), blocks, path="/")
