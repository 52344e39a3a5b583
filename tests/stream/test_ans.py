"""The coder writes, word for word, what textbook rANS on Python's integers writes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle_streams

from lmzip.errors import DamagedError
from lmzip.stream.ans import Decoder, encode_intervals
from lmzip.stream.frequencies import FREQUENCY_TOTAL

SYMBOLS = 16
LARGEST = FREQUENCY_TOTAL - SYMBOLS + 1  # all other symbols have frequency 1

Bounds = npt.NDArray[np.int64]  # (n, SYMBOLS + 1): where the symbols' intervals begin and end


def draw_bounds(count: int, seed: int, *, concentration: float) -> Bounds:
    """Draw frequencies of at least 1 that add up to 2^24, from even ones to extreme ones."""
    state = np.random.default_rng(seed)
    shares = state.gamma(concentration, size=(count, SYMBOLS)) + 1e-300
    shared = np.floor(np.cumsum(shares, 1) / shares.sum(1)[:, None] * (FREQUENCY_TOTAL - SYMBOLS))
    shared[:, -1] = FREQUENCY_TOTAL - SYMBOLS
    ends = shared.astype(np.int64) + np.arange(1, SYMBOLS + 1)
    return np.concatenate([np.zeros((count, 1), np.int64), ends], axis=1)


def encode(bounds: Bounds, symbols: npt.NDArray[np.int64]) -> bytes:
    place = np.arange(len(symbols))
    left, right = bounds[place, symbols], bounds[place, symbols + 1]
    return encode_intervals(left.astype(np.int32), right.astype(np.int32))


def encode_by_the_book(bounds: Bounds, symbols: npt.NDArray[np.int64]) -> bytes:
    encoder = oracle_streams.Encoder()
    for row, symbol in zip(bounds.tolist(), symbols.tolist(), strict=True):
        encoder.code(row, symbol)
    return encoder.finish()


def check(bounds: Bounds, symbols: npt.NDArray[np.int64]) -> bytes:
    """Encode in both ways, decode in both ways, and return the words."""
    words = encode(bounds, symbols)
    assert words == encode_by_the_book(bounds, symbols)
    frequencies = np.diff(bounds, axis=1)
    decoder = Decoder(words)
    middle = len(symbols) // 2  # a decoder may be asked in several goes
    parts = [decoder.decode(part - 1) for part in (frequencies[:middle], frequencies[middle:])]
    decoder.finish()
    assert np.array_equal(np.concatenate(parts), symbols)
    by_the_book = oracle_streams.Decoder(words)
    assert [by_the_book.code(row, 0) for row in bounds.tolist()] == symbols.tolist()
    by_the_book.finish()
    return words


@given(
    count=st.integers(0, 300),
    concentration=st.sampled_from([0.003, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_words_are_those_of_textbook_rans(count: int, concentration: float, seed: int) -> None:
    bounds = draw_bounds(count, seed, concentration=concentration)
    assert (np.diff(bounds, axis=1) >= 1).all()
    symbols = np.random.default_rng(seed).integers(0, SYMBOLS, count)
    check(bounds, symbols)


@pytest.mark.parametrize("large", range(SYMBOLS))
def test_extreme_frequencies(large: int) -> None:
    """One symbol has all but the least; every symbol is coded, and the large one many times."""
    frequencies = np.ones(SYMBOLS, np.int64)
    frequencies[large] = LARGEST
    row = np.concatenate([[0], np.cumsum(frequencies)])
    symbols = np.array([*range(SYMBOLS), *[large] * 200, *range(SYMBOLS)])
    words = check(np.tile(row, (len(symbols), 1)), symbols)
    rare = 2 * (SYMBOLS - 1)
    assert abs(len(words) * 8 - rare * 24) <= 64


def test_no_symbols_are_no_words() -> None:
    bounds = draw_bounds(0, 0, concentration=1)
    assert check(bounds, np.zeros(0, np.int64)) == b""


def test_symbols_at_the_start_of_the_range_need_no_words() -> None:
    """A state of zero stays zero, so the shortest stream of all is empty."""
    bounds = draw_bounds(5, 0, concentration=1)
    assert check(bounds, np.zeros(5, np.int64)) == b""


def test_length_is_that_of_the_probabilities() -> None:
    bounds = draw_bounds(5000, 3, concentration=0.5)
    frequencies = np.diff(bounds, axis=1)
    state = np.random.default_rng(4)
    symbols = np.array([state.choice(SYMBOLS, p=row / FREQUENCY_TOTAL) for row in frequencies])
    chosen = frequencies[np.arange(len(symbols)), symbols]
    ideal = -np.log2(chosen / FREQUENCY_TOTAL).sum()
    assert ideal <= 8 * len(encode(bounds, symbols)) <= ideal * 1.0001 + 64


@pytest.mark.parametrize("stream", [b"\0", b"\1\0", b"\1\2\3\0", b"\1\0\0\0\0\0\0\0"])
def test_zeros_at_the_end_are_refused(stream: bytes) -> None:
    """The most significant bytes of a last word are not stored if they are 0."""
    with pytest.raises(DamagedError, match="zeros"):
        Decoder(stream)


def test_symbols_that_share_their_frequencies() -> None:
    bounds = np.repeat(draw_bounds(1, 6, concentration=1), 500, axis=0)
    symbols = np.random.default_rng(6).integers(0, SYMBOLS, 500)
    decoder = Decoder(encode(bounds, symbols))
    frequencies = np.diff(bounds[0]).astype(np.int32) - 1
    assert np.array_equal(decoder.decode_alike(frequencies, 500), symbols)
    decoder.finish()


def test_left_over_words_are_noticed() -> None:
    bounds = draw_bounds(50, 5, concentration=1)
    decoder = Decoder(encode(bounds, np.full(50, 7)))
    decoder.decode(np.diff(bounds[:49], axis=1) - 1)
    with pytest.raises(DamagedError, match="does not end"):
        decoder.finish()
