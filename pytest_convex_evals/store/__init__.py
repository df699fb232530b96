"""The run store: folders of runs, their journals, and what can be read back from them."""
