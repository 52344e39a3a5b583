"""Export: a trained compact network becomes a model file, and what that costs is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from lmzip.models.bits_per_dimension import measure_float, measure_integers
from lmzip.models.compact import CompactNetwork
from lmzip.models.lmconv import MaskSet
from lmzip.models.quantise import quantise
from lmzip.network.integer_network import IntegerNetwork, save_integer_network
from lmzip.order.orders import expand_orders


@dataclass(frozen=True)
class Export:
    """An integer network, and its bits per dimension beside those of the float network.

    `integer_bpd` is measured under the integer mixture, `coded_bpd` in the bytes of the coder.
    """

    network: IntegerNetwork
    float_bpd: float
    integer_bpd: float
    coded_bpd: float

    def save(self, path: Path) -> None:
        """Write the model file, whole or not at all."""
        save_integer_network(self.network, path)


def export_network(
    network: CompactNetwork,
    calibration: Tensor,
    held_out: Tensor,
    orders: Sequence[str],
    name: str,
    notes: Mapping[str, Any],
) -> Export:
    """Quantise a network by calibration images, and measure it on others: uint8 (N, C, H, W).

    `orders` are those the network was trained for; the first one is measured. Raises ModelError
    if the network cannot be made exact.
    """
    integer = quantise(network, calibration, orders, name, notes)
    order = expand_orders(orders)[0]
    masks = MaskSet(order.ranks(held_out.shape[2], held_out.shape[3]))
    return Export(
        integer,
        measure_float(network, held_out, [masks]),
        *measure_integers(integer, held_out, order),
    )
