"""The entropy coder: asymmetric numeral systems (ANS) with integer frequencies that sum to 2^24.

The only module that knows constriction. Its `Categorical(perfect=False)` gives every symbol one
unit and shares out the rest in proportion to the weights it is given; given f - 1 for frequencies
f >= 1 that sum to 2^24, its arithmetic is the identity (FORMAT.md, "Coder"). The words are those
of textbook rANS with a 64-bit state and 32-bit words.

ANS is a stack: what is encoded last is decoded first, so the encoder takes the symbols in reverse.
"""

from __future__ import annotations

import constriction
import numpy as np
import numpy.typing as npt

from lmzip.errors import DamagedError
from lmzip.stream.frequencies import FREQUENCY_TOTAL

Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

_FAMILY = constriction.stream.model.Categorical(perfect=False)


def encode_intervals(left: Int32s, right: Int32s) -> bytes:
    """Encode symbols given by their intervals [left, right) of 0..2^24, first to last.

    All other symbols matter only as what lies on either side, so each symbol is coded in an
    alphabet of three: below, itself, above. No part may be empty; at either end of the range the
    part that is there is split in two. Needs alphabets of at least three symbols.
    """
    parts = np.stack([left, right - left, FREQUENCY_TOTAL - right], axis=1)
    symbols = np.ones(left.size, np.int32)
    lowest, highest = left == 0, right == FREQUENCY_TOTAL
    parts[lowest] = np.stack(
        [right[lowest], FREQUENCY_TOTAL - right[lowest] - 1, np.ones(lowest.sum(), np.int32)], 1
    )
    symbols[lowest] = 0
    parts[highest] = np.stack(
        [np.ones(highest.sum(), np.int32), left[highest] - 1, (right - left)[highest]], 1
    )
    symbols[highest] = 2
    coder = constriction.stream.stack.AnsCoder()
    coder.encode_reverse(symbols, _FAMILY, (parts - 1).astype(np.float32))
    words: bytes = coder.get_compressed().astype("<u4").tobytes()
    return words.rstrip(b"\0")  # of the last word: its most significant bytes


class Decoder:
    """Decodes the symbols that `encode_intervals` encoded, first to last."""

    def __init__(self, data: bytes) -> None:
        if data and not data[-1]:
            raise DamagedError("the coded data ends in zeros (file is damaged)")
        compressed = np.frombuffer(data + bytes(-len(data) % 4), "<u4").astype(np.uint32)
        self._coder = constriction.stream.stack.AnsCoder(compressed)

    def decode(self, frequencies: Int32s | Floats) -> Int32s:
        """Decode n symbols given all frequencies less one, (n, symbols): int32 (n,)."""
        # constriction reads rows as they lie in memory, whatever the strides say.
        rows = np.ascontiguousarray(frequencies, np.float32)
        symbols: Int32s = self._coder.decode(_FAMILY, rows)
        return symbols

    def decode_alike(self, frequencies: Int32s, count: int) -> Int32s:
        """Decode symbols that share their frequencies less one, (symbols,): int32 (count,)."""
        model = constriction.stream.model.Categorical(frequencies.astype(np.float32), perfect=False)
        symbols: Int32s = self._coder.decode(model, count)
        return symbols

    @property
    def is_dry(self) -> bool:
        """Whether nothing is left: from a state of zero only first symbols follow, for ever."""
        return bool(self._coder.is_empty())

    def finish(self) -> None:
        """Raise DamagedError unless everything that was encoded has been decoded."""
        if not self._coder.is_empty():
            raise DamagedError("the coded data does not end where the image does (file is damaged)")
