"""Grading: from a submission to a verdict, step by step."""
