"""Code lengths as integers: the unit in which files say what their pixels cost under the model.

Counting in integers makes the figure a part of the file and the same on every machine.
"""

COST_BITS = 16  # the unit is 2^-16 bit


def to_bits(cost: int) -> float:
    """Return a cost in bits."""
    return cost / (1 << COST_BITS)


def cost_of_bytes(size: int) -> int:
    """Return what `size` bytes cost."""
    return 8 * size << COST_BITS
