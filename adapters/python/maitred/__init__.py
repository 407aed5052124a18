"""Runs WSGI, ASGI and RSGI applications behind Maitred: requests come over a channel, responses go straight to the client.

The specification of the channel is adapters/PROTOCOL.md. Start with ``python3 -m maitred module:callable``.
"""

__version__ = "0.1.0"
