"""Code lengths as integers: the unit in which files say what their pixels cost under the model.

Counting in integers makes the figure a part of the file and the same on every machine.
"""

COST_BITS = 16  # the unit is 2^-16 bit
_EXCESS_SHIFT = COST_BITS - 6


def to_bits(cost: int) -> float:
    """Return a cost in bits."""
    return cost / (1 << COST_BITS)


def cost_of_bytes(size: int) -> int:
    """Return what `size` bytes cost."""
    return 8 * size << COST_BITS


def to_excess(cost: int, size: int) -> int:
    """Return by how much `size` bytes exceed a cost, in units of 2^-6 bit: a small number."""
    return (cost_of_bytes(size) - cost) >> _EXCESS_SHIFT


def from_excess(excess: int, size: int) -> int:
    """Return the cost that `size` bytes exceed by so much."""
    return max(0, cost_of_bytes(size) - (excess << _EXCESS_SHIFT))
