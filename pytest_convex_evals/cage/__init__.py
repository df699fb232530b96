"""The cage: what submitted code runs in."""
