"""What is special to this repository: its own tests need pytest's plugin tester."""

pytest_plugins = ["pytester"]
