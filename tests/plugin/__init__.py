"""The plugin as people meet it: whole pytest sessions on small suites."""
