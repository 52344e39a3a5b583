"""The figures of the paper's Tables 1 to 3, to stand below what `lmzip eval` measures.

Rows that the paper took from other papers are marked as such: nobody has measured them with this
code or with the authors'. The two-stream PixelCNN++ is a network of Salimans et al., which neither
the authors' code nor ours trains.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: one figure, or one for each hidden half (top, left, bottom)."""

    name: str
    figures: tuple[float, ...]
    by_others: bool = False


# By data set, for whole images. Binarized MNIST in nats, all others in bits per dimension.
WHOLE_IMAGES = {
    "binarized-mnist": (
        PaperRow("DARN (about)", (84.13,), True),
        PaperRow("NADE", (88.33,), True),
        PaperRow("EoNADE 2hl, 128 orders", (85.10,), True),
        PaperRow("EoNADE-5 2hl, 128 orders", (84.68,), True),
        PaperRow("MADE 2hl, 32 orders", (86.64,), True),
        PaperRow("PixelCNN", (81.30,), True),
        PaperRow("PixelRNN", (79.20,), True),
        PaperRow("LMConv, S-curve, 1 order", (78.47,)),
        PaperRow("LMConv, S-curve, 8 orders", (77.58,)),
    ),
    "mnist": (
        PaperRow("Spatial PixelCNN", (0.88,), True),
        PaperRow("PixelCNN++, 1 stream", (0.77,)),
        PaperRow("LMConv, S-curve, 1 order", (0.68,)),
        PaperRow("LMConv, S-curve, 8 orders", (0.65,)),
    ),
    "cifar10": (
        PaperRow("PixelCNN", (3.14,), True),
        PaperRow("Gated PixelCNN", (3.03,), True),
        PaperRow("PixelCNN++, 1 stream", (2.99,)),
        PaperRow("PixelCNN++, 2 streams", (2.92,), True),
        PaperRow("Image Transformer", (2.90,), True),
        PaperRow("PixelSNAIL", (2.85,), True),
        PaperRow("Sparse Transformer", (2.80,), True),
        PaperRow("LMConv, S-curve, 1 order", (2.91,)),
        PaperRow("LMConv, S-curve, 8 orders", (2.89,)),
    ),
}

# Of a hidden half given the other: top, left, bottom.
COMPLETIONS = {
    "binarized-mnist": (
        PaperRow("LMConv, adversarial order", (41.76, 39.83, 43.35)),
        PaperRow("LMConv, 1 max context", (34.99, 32.47, 36.57)),
        PaperRow("LMConv, 2 max context", (34.82, 32.25, 36.36)),
    ),
    "cifar10": (
        PaperRow("PixelCNN++, 1 stream", (3.07, 3.10, 3.05)),
        PaperRow("PixelCNN++, 2 streams", (2.97, 2.98, 2.93), True),
        PaperRow("LMConv, adversarial order", (2.93, 2.98, 3.05)),
        PaperRow("LMConv, 1 max context", (2.77, 2.83, 2.89)),
        PaperRow("LMConv, 2 max context", (2.76, 2.82, 2.88)),
    ),
}


def format_figures(kind: str, *, completion: bool) -> str:
    """Return the paper's figures for a data set as lines of at most 80 columns; may be empty."""
    rows = (COMPLETIONS if completion else WHOLE_IMAGES).get(kind, ())
    if not rows:
        return ""
    binary = kind == "binarized-mnist"
    heading = ("top", "left", "bottom") if completion else ("image",)
    lines = [
        f"the paper's figures, {'nats' if binary else 'bpd'}",
        f"{'':<26}" + "".join(f"{name:>18}" for name in heading),
    ]
    for row in rows:
        mark = " *" if row.by_others else ""
        lines.append(f"{row.name + mark:<26}" + "".join(f"{f:>18.2f}" for f in row.figures))
    if any(row.by_others for row in rows):
        lines.append("* another model's figure, as published")
    return "\n".join(lines)
