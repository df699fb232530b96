"""The grading steps, one file each, behind one interface."""
