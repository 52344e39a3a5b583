"""The adaptation of a second .lmz codec, written from FORMAT.md alone in plain Python integers."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.oracle_streams import Features, Mixture, Network

# By method: the rates of logits, means, log-scales and coefficients, and where errors are seen.
MANNERS: dict[int, tuple[tuple[int, int, int, int], list[tuple[int, int]]]] = {
    6: ((32, 24, 3, 32), []),
    7: ((24, 18, 2, 24), [(0, -1), (-1, 0), (-1, 1), (-1, -1), (0, -2), (-2, 0), (-2, 1), (-1, 2)]),
}


def clip(value: int, low: int, high: int) -> int:
    """Force a value into low..high."""
    return min(max(value, low), high)


def halve(value: int, bits: int) -> int:
    """Divide by 2^bits, round to the nearest integer, ties upwards."""
    return (value + (1 << (bits - 1))) >> bits


def start_adaptation(network: Network, method: int, pixels: int) -> Adaptation | None:
    """Give what a chunk of a method begins with."""
    return None if method == 1 else Adaptation(network, method, pixels)


class Adaptation:
    """What the outputs of a network have learnt in a chunk."""

    def __init__(self, network: Network, method: int, pixels: int) -> None:
        by_kind, self.around = MANNERS[method]
        assert network.activation_max < 1 << 12
        features = len(network.out.weight[0][0])
        channels, k = network.channels, network.mixtures
        self.inputs = features + 1 + len(self.around) * channels
        largest = 4095 * features + 4096 + 1024 * len(self.around) * channels
        assert 4095 * largest + (1 << 16) < 1 << 31
        counts = 1, channels, channels, channels * (channels - 1) // 2
        self.rates = [r for r, n in zip(by_kind, counts, strict=True) for _ in range(n * k)]
        self.changes = [[0] * self.inputs for _ in self.rates]
        self.pulls = [[0] * self.inputs for _ in self.rates]
        self.errors = [[0] * channels for _ in range(pixels)]
        self.seen = 0

    def gather(self, features: Features, pixel: int) -> list[int]:
        """Give the inputs of a pixel that has just been evaluated."""
        first = features.network.first
        seen = dict(zip(first.offsets, features.gather(first, self.errors, pixel), strict=True))
        errors = [seen.get(offset) or [0] * features.network.channels for offset in self.around]
        return [*features.last, 1 << 12, *(error for each in errors for error in each)]

    def correct(self, outputs: list[int], inputs: list[int]) -> list[int]:
        """Give the outputs of a pixel as they are changed."""
        return [
            y + ((sum(map(mul, row, inputs)) + (1 << 16)) >> 17)
            for y, row in zip(outputs, self.changes, strict=True)
        ]

    def learn(self, step: list[tuple[list[int], list[int]]]) -> None:
        """Take in the gradients and the inputs of a step's pixels."""
        for gradients, inputs in step:
            for gradient, row in zip(gradients, self.pulls, strict=True):
                for i, a in enumerate(inputs):
                    row[i] += gradient * a
        self.seen += len(step)
        if self.seen < 64:
            return
        self.seen = 0
        for rate, changes, pulls in zip(self.rates, self.changes, self.pulls, strict=True):
            for i, pull in enumerate(pulls):
                sign = (pull > 0) - (pull < 0)
                changes[i] = clip(changes[i] + rate * sign, -4095, 4095)
                pulls[i] = pull - (pull >> 2)


def find_errors(mixture: Mixture, coded: int) -> list[int]:
    """Give how far off each channel of a pixel was predicted."""
    errors = [0] * mixture.network.channels
    for c in range(coded):
        slopes = [find_slope(cdf, mixture.samples[c]) for cdf, _ in mixture.history[c]]
        errors[c] = halve(sum(map(mul, mixture.before[c], slopes)), 20)
    return errors


def find_slope(cdf: Callable[[int], int], sample: int) -> int:
    """Give t."""
    return (cdf(sample) + cdf(sample + 1) - (1 << 16)) >> 1


def find_gradients(mixture: Mixture, coded: int) -> list[int]:
    """Give the gradients of all outputs of a pixel whose channels are known."""
    network, samples, weights = mixture.network, mixture.samples, mixture.weights
    prior = mixture.before[0]
    channels, k = network.channels, network.mixtures
    logits = [halve(v - w, 7) for v, w in zip(weights, prior, strict=True)]
    pulls, log_scales = [], [[0] * k for _ in range(channels)]
    for c in range(coded):
        row = []
        for i in range(k):
            cdf, (mean, scale) = mixture.history[c][i]
            slope = find_slope(cdf, samples[c])
            row.append(halve(halve(weights[i] * slope, 15) * (scale >> 1), 16))
            entry = (64 * samples[c] * scale - (mean * scale - (8192 << 9))) >> 9
            distance = clip(entry, 0, 16383) - 8192
            log_scales[c][i] = halve(weights[i] * halve(distance * slope - 22369622, 13), 18)
        pulls.append(row)
    means = [[0] * k for _ in range(channels)]
    couplings = []
    for c in range(coded):
        means[c] = list(pulls[c])
    for c in range(channels):
        for e in range(c):
            row = [0] * k
            if c < coded:
                for i in range(k):
                    means[e][i] -= halve(mixture.couplings[e, c][i] * pulls[c][i], 10)
                    row[i] = halve(pulls[c][i] * (64 * samples[e] - mixture.means[e][i]), 6)
            couplings.append(row)
    together = [logits, *means, *log_scales, *couplings]
    return [clip(g, -2047, 2047) for row in together for g in row]
