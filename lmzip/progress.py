"""Progress: how long work reports to its caller how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the amount done and the total: pixels in the codec, images elsewhere."""
