"""A short run of `make fuzz`."""

from .batches import fuzz


def test_hostile_input_takes_nothing_down() -> None:
    assert fuzz(4, 1) > 0
