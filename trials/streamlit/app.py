"""A greeting, a counter of this visitor's, a file."""

import hashlib
import time

import streamlit

streamlit.title("Trial")
name = streamlit.text_input("name", key="name")
streamlit.write(f"hello {name or 'nobody'}")
if "count" not in streamlit.session_state:
    streamlit.session_state.count = 0
if streamlit.button("count"):
    streamlit.session_state.count += 1
streamlit.write(f"counted {streamlit.session_state.count}")
if streamlit.button("stream"):

    def words():
        """One after another."""
        for number in range(5):
            yield f"word{number} "
            time.sleep(0.1)

    streamlit.write_stream(words)
file = streamlit.file_uploader("file")
if file:
    data = file.read()
    streamlit.write(f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:8]}")
    streamlit.download_button("download", data, "back.bin")
