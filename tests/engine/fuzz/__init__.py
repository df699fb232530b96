"""Hostile input over HTTP, WebSocket and the runner pipe; an ordinary client must be served after each batch."""
