"""pytest-convex-evals: measure how well language models write Convex backends."""

__version__ = "0.1.0"
