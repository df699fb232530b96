"""The convex-evals command."""
