"""What `make bench` runs: one line per figure."""
