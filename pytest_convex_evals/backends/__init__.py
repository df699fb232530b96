"""Backends that deploy and run submissions."""
