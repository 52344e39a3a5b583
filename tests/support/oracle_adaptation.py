"""The adaptation of a second .lmz codec, written from FORMAT.md alone in plain Python integers."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.oracle_streams import Mixture, Network

RATES = 32, 24, 3, 32  # of logits, means, log-scales, coefficients


def clip(value: int, low: int, high: int) -> int:
    """Force a value into low..high."""
    return min(max(value, low), high)


def halve(value: int, bits: int) -> int:
    """Divide by 2^bits, round to the nearest integer, ties upwards."""
    return (value + (1 << (bits - 1))) >> bits


class Adaptation:
    """What the outputs of a network have learnt in a chunk."""

    def __init__(self, network: Network) -> None:
        assert network.activation_max < 1 << 12
        features = len(network.out.weight[0][0])
        assert features <= 127
        channels, k = network.channels, network.mixtures
        counts = 1, channels, channels, channels * (channels - 1) // 2
        self.rates = [r for r, n in zip(RATES, counts, strict=True) for _ in range(n * k)]
        self.changes = [[0] * (features + 1) for _ in self.rates]
        self.pulls = [[0] * (features + 1) for _ in self.rates]
        self.seen = 0

    def correct(self, outputs: list[int], features: list[int]) -> list[int]:
        """Give the outputs of a pixel as they are changed."""
        inputs = [*features, 1 << 12]
        return [
            y + ((sum(map(mul, row, inputs)) + (1 << 16)) >> 17)
            for y, row in zip(outputs, self.changes, strict=True)
        ]

    def learn(self, step: list[tuple[list[int], list[int]]]) -> None:
        """Take in the gradients and the features of a step's pixels."""
        for gradients, features in step:
            for gradient, row in zip(gradients, self.pulls, strict=True):
                for i, a in enumerate([*features, 1 << 12]):
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


def find_gradients(mixture: Mixture, prior: list[int], coded: int) -> list[int]:
    """Give the gradients of all outputs of a pixel whose channels are known."""
    network, samples, weights = mixture.network, mixture.samples, mixture.weights
    channels, k = network.channels, network.mixtures
    logits = [halve(v - w, 7) for v, w in zip(weights, prior, strict=True)]
    pulls, log_scales = [], [[0] * k for _ in range(channels)]
    for c in range(coded):
        row = []
        for i in range(k):
            cdf, (mean, scale) = mixture.history[c][i]
            slope = (cdf(samples[c]) + cdf(samples[c] + 1) - (1 << 16)) >> 1
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
