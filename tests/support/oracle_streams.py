"""The streams of a second .lmz codec, written from FORMAT.md alone in plain Python integers.

Orders, schedule, network, mixture and rANS; tests/oracle.py holds the files around them. Nothing of
lmzip is imported: that both codecs agree shows that the page is enough to write a decoder from and
that the engine's floats hold exact integers. Every part follows the section it is named after; a
whole codec that stands on its own is longer than other modules.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import isqrt
from operator import mul
from typing import Any

from support.oracle_adaptation import Adaptation, find_errors, find_gradients, start_adaptation

Vector = tuple[int, int]
Planes = list[list[int]]  # [channel][flat index]

NEIGHBOURS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]
INTEGERS = (
    "channels",
    "mixtures",
    "activation_max",
    "stream_max",
    "stream_bits",
    "predictor_shift",
    "blocks",
)  # of a model file's JSON object


# ---- Numbers -------------------------------------------------------------------------------------


def clip(value: int, low: int, high: int) -> int:
    """Force a value into low..high."""
    return min(max(value, low), high)


def shift_round(value: int, bits: int) -> int:
    """Divide by 2^bits, round to the nearest integer, ties to even."""
    quotient, remainder = value >> bits, value & ((1 << bits) - 1)
    half = (1 << bits) >> 1
    if bits and (remainder > half or (remainder == half and quotient & 1)):
        quotient += 1
    return quotient


def look_up(table: Sequence[int], index: int) -> int:
    """Read a table; the index is clipped to it."""
    return table[clip(index, 0, len(table) - 1)]


# ---- Orders --------------------------------------------------------------------------------------


def hilbert_walk(start: Vector, along: Vector, across: Vector) -> Iterator[Vector]:
    """Visit a rectangle from a corner to the far end of `along`."""
    length, breadth = abs(sum(along)), abs(sum(across))
    unit = (along[0] // length, along[1] // length)
    side = (across[0] // breadth, across[1] // breadth)
    if breadth == 1:
        for i in range(length):
            yield start[0] + i * unit[0], start[1] + i * unit[1]
    elif length == 1:
        for i in range(breadth):
            yield start[0] + i * side[0], start[1] + i * side[1]
    elif 2 * length > 3 * breadth:
        h = (along[0] // 2, along[1] // 2)
        if abs(sum(h)) % 2 and length > 2:
            h = (h[0] + unit[0], h[1] + unit[1])
        yield from hilbert_walk(start, h, across)
        rest = (along[0] - h[0], along[1] - h[1])
        yield from hilbert_walk((start[0] + h[0], start[1] + h[1]), rest, across)
    else:
        h = (along[0] // 2, along[1] // 2)
        k = (across[0] // 2, across[1] // 2)
        if abs(sum(k)) % 2 and breadth > 2:
            k = (k[0] + side[0], k[1] + side[1])
        yield from hilbert_walk(start, k, h)
        middle = (start[0] + k[0], start[1] + k[1])
        yield from hilbert_walk(middle, along, (across[0] - k[0], across[1] - k[1]))
        end = (
            start[0] + along[0] - unit[0] + k[0] - side[0],
            start[1] + along[1] - unit[1] + k[1] - side[1],
        )
        yield from hilbert_walk(end, (-k[0], -k[1]), (h[0] - along[0], h[1] - along[1]))


def plain_order(family: int, height: int, width: int) -> list[Vector]:
    """List the pixels of a grid as the unvaried order of a family visits them."""
    if family == 2:
        along, across = (0, width), (height, 0)
        if width < height:
            along, across = across, along
        if sum(along) % 2 and sum(across) % 2 == 0:
            along, across = across, along
        return list(hilbert_walk((0, 0), along, across))
    backwards = family == 1
    return [
        (r, width - 1 - c if backwards and r % 2 else c)
        for r in range(height)
        for c in range(width)
    ]


def order_ranks(family: int, variant: int, height: int, width: int) -> list[int]:
    """Give the rank of each pixel, by flat index."""
    rows, columns = (width, height) if variant & 4 else (height, width)
    ranks = [[0] * columns for _ in range(rows)]
    for rank, (r, c) in enumerate(plain_order(family, rows, columns)):
        ranks[r][c] = rank
    if variant & 1:
        ranks = [row[::-1] for row in ranks]
    if variant & 2:
        ranks = ranks[::-1]
    if variant & 4:
        ranks = [list(column) for column in zip(*ranks, strict=True)]
    return [rank for row in ranks for rank in row]


# ---- Model files ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """One layer: weight[output][tap][input], and what FORMAT.md lists beside it."""

    weight: list[list[list[int]]]
    mask_weight: list[list[int]]
    bias: list[int]
    shift: list[int]
    offsets: list[Vector]

    def sums(self, inputs: Sequence[Sequence[int] | None]) -> list[int]:
        """Weigh the inputs of each tap; None is a tap that the pixel does not see."""
        totals = list(self.bias)
        for o, (weight, mask_weight) in enumerate(zip(self.weight, self.mask_weight, strict=True)):
            for taps, extra, values in zip(weight, mask_weight, inputs, strict=True):
                if values is not None:
                    totals[o] += sum(map(mul, taps, values)) + extra
        return totals

    def apply(self, inputs: Sequence[Sequence[int] | None]) -> list[int]:
        """Give the layer's outputs."""
        return [shift_round(t, s) for t, s in zip(self.sums(inputs), self.shift, strict=True)]

    def largest_sum(self, largest_input: int) -> int:
        """Bound what any partial sum can reach."""
        return max(
            sum(abs(w) for tap in weight for w in tap) * largest_input
            + sum(map(abs, mask_weight))
            + abs(bias)
            for weight, mask_weight, bias in zip(
                self.weight, self.mask_weight, self.bias, strict=True
            )
        )


@dataclass(frozen=True)
class Network:
    """A model file's content."""

    name: str
    channels: int
    mixtures: int
    activation_max: int
    stream_max: int
    stream_bits: int
    predictor_shift: int
    predictor: list[list[list[int]]]  # [set][channel][8 * input + neighbour]
    first: Layer
    blocks: list[tuple[Layer, Layer]]
    out: Layer
    logistic: list[int]
    inverse_scale: list[int]
    weight: list[int]
    fingerprint: bytes = field(repr=False)
    tensors: dict[str, Any] = field(
        repr=False, compare=False, default_factory=dict
    )  # as in the file, with
    shapes: dict[str, list[int]] = field(repr=False, compare=False, default_factory=dict)
    config: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    bank: dict[int, bytes] = field(repr=False, compare=False, default_factory=dict)

    def offsets(self) -> set[Vector]:
        """Collect every offset at which the network looks."""
        layers = [self.first, self.out] + [layer for block in self.blocks for layer in block]
        return set(NEIGHBOURS).union(*(layer.offsets for layer in layers))


def read_tensors(data: bytes) -> tuple[dict[str, Any], dict[str, str], dict[str, list[int]]]:
    """Read a safetensors file: nested lists, metadata, and shapes."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    tensors, shapes = {}, {}
    codes = {"I8": "b", "U8": "B", "I16": "h", "I32": "i", "I64": "q"}
    for name, entry in header.items():
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        code = codes[entry["dtype"]]
        values: list[Any] = list(
            struct.unpack(f"<{(end - start) // struct.calcsize(code)}{code}", data[start:end])
        )
        shapes[name] = entry["shape"]
        for length in entry["shape"][:0:-1]:
            values = [values[i : i + length] for i in range(0, len(values), length)]
        tensors[name] = values
    return tensors, metadata, shapes


def flatten(values: Any) -> list[int]:
    """List the integers of nested lists."""
    return [v for item in values for v in flatten(item)] if isinstance(values, list) else [values]


def read_model(data: bytes) -> Network:
    """Read a model file and prove its bounds."""
    tensors, metadata, shapes = read_tensors(data)
    assert metadata["kind"] == "lmzip integer network 1"
    return build_network(tensors, shapes, json.loads(metadata["network"]))


def build_network(
    tensors: dict[str, Any], shapes: dict[str, list[int]], config: dict[str, Any]
) -> Network:
    """Put a network together and prove its bounds."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}[{','.join(map(str, shapes[name]))}]".encode("ascii"))
        values = flatten(tensors[name])
        digest.update(struct.pack(f"<{len(values)}q", *values))
    numbers = {name: config[name] for name in INTEGERS}
    digest.update(json.dumps(numbers, sort_keys=True).encode("ascii"))

    blocks = range(config["blocks"])

    def layer(name: str) -> Layer:
        return Layer(
            tensors[f"{name}.weight"],
            tensors[f"{name}.mask_weight"],
            tensors[f"{name}.bias"],
            tensors[f"{name}.shift"],
            [(row, column) for row, column in tensors[f"{name}.offsets"]],
        )

    network = Network(
        name=config["name"],
        channels=config["channels"],
        mixtures=config["mixtures"],
        activation_max=config["activation_max"],
        stream_max=config["stream_max"],
        stream_bits=config["stream_bits"],
        predictor_shift=config["predictor_shift"],
        predictor=tensors["predictor.weight"],
        first=layer("first"),
        blocks=[(layer(f"blocks.{n}.conv"), layer(f"blocks.{n}.project")) for n in blocks],
        out=layer("out"),
        logistic=tensors["tables.logistic"],
        inverse_scale=tensors["tables.inverse_scale"],
        weight=tensors["tables.weight"],
        fingerprint=digest.digest(),
        tensors=tensors,
        shapes=shapes,
        config=config,
    )
    prove_bounds(network)
    return network


def prove_bounds(network: Network) -> None:
    """Refuse a network whose sums may not be exact in 32-bit floats."""
    sums = [network.first.largest_sum(255), network.out.largest_sum(network.activation_max)]
    sums += [sum(map(abs, row)) * 255 for kernel in network.predictor for row in kernel]
    for conv, project in network.blocks:
        sums += [conv.largest_sum(network.activation_max)]
        sums += [project.largest_sum(network.activation_max)]
        for row, extra, bias, shift in zip(
            project.weight, project.mask_weight, project.bias, project.shift, strict=True
        ):
            single = Layer([row], [extra], [bias], [shift], project.offsets)
            reach = single.largest_sum(network.activation_max)
            sums += [network.stream_max + (reach >> shift) + 1]
    assert max(sums) < 1 << 24


# ---- Schedule ------------------------------------------------------------------------------------


def seen_pixels(
    ranks: Sequence[int], height: int, width: int, pixel: int, offsets: Sequence[Vector]
) -> list[int | None]:
    """Give the flat index of what a pixel sees through each offset, None where it sees nothing."""
    row, column = divmod(pixel, width)
    seen: list[int | None] = []
    for down, right in offsets:
        r, c = row + down, column + right
        inside = 0 <= r < height and 0 <= c < width
        other = r * width + c
        visible = inside and (ranks[other] < ranks[pixel] or other == pixel)
        seen.append(other if visible else None)
    return seen


def find_steps(
    ranks: Sequence[int], height: int, width: int, offsets: Sequence[Vector]
) -> list[list[int]]:
    """List the pixels of each step, by rank."""
    steps: list[int] = [0] * (height * width)
    by_rank = sorted(range(height * width), key=lambda pixel: ranks[pixel])
    for pixel in by_rank:
        seen = seen_pixels(ranks, height, width, pixel, offsets)
        others = [steps[q] for q in seen if q is not None and q != pixel]
        steps[pixel] = 1 + max(others) if others else 0
    found: list[list[int]] = [[] for _ in range(max(steps) + 1)]
    for pixel in by_rank:
        found[steps[pixel]].append(pixel)
    return found


# ---- Network -------------------------------------------------------------------------------------


class Features:
    """The features of one image, computed pixel by pixel in the sequence of its tile."""

    def __init__(self, network: Network, ranks: Sequence[int], height: int, width: int) -> None:
        self.network, self.ranks, self.height, self.width = network, ranks, height, width
        size = height * width
        self.inputs: list[list[int] | None] = [None] * size  # 2x - 255
        self.activations: list[list[list[int] | None]] = [[None] * size for _ in network.blocks]
        self.last: list[int] = []  # what the last layer saw at the latest pixel

    def gather(
        self, layer: Layer, values: Sequence[list[int] | None], pixel: int
    ) -> list[list[int] | None]:
        """Give what a layer's taps see at a pixel."""
        seen = seen_pixels(self.ranks, self.height, self.width, pixel, layer.offsets)
        return [None if q is None else values[q] for q in seen]

    def outputs(self, pixel: int) -> list[int]:
        """Run the network at a pixel, whose predecessors must be known."""
        network = self.network
        top, bits = network.activation_max, network.stream_bits

        def limit(values: list[int]) -> list[int]:
            return [clip(v, -network.stream_max, network.stream_max) for v in values]

        def activate(values: list[int]) -> list[int]:
            return [clip(shift_round(v, bits), 0, top) for v in values]

        h = limit(network.first.apply(self.gather(network.first, self.inputs, pixel)))
        for (conv, project), stored in zip(network.blocks, self.activations, strict=True):
            stored[pixel] = activate(h)
            b = [clip(v, 0, top) for v in conv.apply(self.gather(conv, stored, pixel))]
            h = limit([x + y for x, y in zip(h, project.apply([b]), strict=True)])
        self.last = activate(h)
        return network.out.apply([self.last])

    def linear(self, pixel: int) -> list[int]:
        """Predict a pixel's channels from its visible neighbours."""
        seen = seen_pixels(self.ranks, self.height, self.width, pixel, NEIGHBOURS)
        kernel = self.network.predictor[sum(1 << t for t, q in enumerate(seen) if q is not None)]
        result = []
        for row in kernel:
            total = 0
            for t, q in enumerate(seen):
                if q is not None:
                    values = self.inputs[q]
                    assert values is not None
                    total += sum(row[8 * i + t] * x for i, x in enumerate(values))
            result.append(shift_round(total, self.network.predictor_shift))
        return result


# ---- Mixture -------------------------------------------------------------------------------------


def normalise(values: Sequence[int]) -> list[int]:
    """Turn non-negative numbers into weights that add up to 2^15."""
    sums = [0, *accumulate(values)]
    return [(b << 15) // sums[-1] - (a << 15) // sums[-1] for a, b in pairwise(sums)]


class Mixture:
    """The distribution of one pixel, channel after channel."""

    def __init__(self, network: Network, outputs: Sequence[int], linear: Sequence[int]) -> None:
        self.network = network
        k, channels = network.mixtures, network.channels
        rows = [list(outputs[i : i + k]) for i in range(0, len(outputs), k)]
        logits, means, self.log_scales, couplings = (
            rows[0],
            rows[1 : 1 + channels],
            rows[1 + channels : 1 + 2 * channels],
            rows[1 + 2 * channels :],
        )
        self.weights = normalise([look_up(network.weight, max(logits) - x) for x in logits])
        self.means = [
            [clip(m + linear[c] + 8160, -4096, 20480) for m in row] for c, row in enumerate(means)
        ]
        pairs = [(e, c) for c in range(channels) for e in range(c)]
        self.couplings = {
            pair: [clip(a, -4096, 4096) for a in row]
            for pair, row in zip(pairs, couplings, strict=True)
        }
        self.samples: list[int] = []
        self.component_cdfs: list[Callable[[int], int]] = []
        self.history: list[list[tuple[Callable[[int], int], Vector]]] = []  # F, mean and scale
        self.before: list[list[int]] = []  # the weights before each channel

    def begin_channel(self) -> None:
        """Condition the next channel's logistics on the earlier ones."""
        c = len(self.samples)
        means = list(self.means[c])
        for e, sample in enumerate(self.samples):
            for k, a in enumerate(self.couplings[e, c]):
                means[k] += (a * (64 * sample - self.means[e][k]) + 512) >> 10
        if c:
            means = [clip(m, -4096, 20480) for m in means]
        scales = [look_up(self.network.inverse_scale, s) for s in self.log_scales[c]]
        self.component_cdfs = [self.logistic_cdf(m, s) for m, s in zip(means, scales, strict=True)]
        parameters = zip(means, scales, strict=True)
        self.history.append(list(zip(self.component_cdfs, parameters, strict=True)))
        self.before.append(self.weights)

    def logistic_cdf(self, mean: int, scale: int) -> Callable[[int], int]:
        """Give F_k."""

        def cdf(b: int) -> int:
            if b in (0, 256):
                return b << 8
            index = ((64 * b - 32) * scale - (mean * scale - (8192 << 9))) >> 9
            return look_up(self.network.logistic, index)

        return cdf

    def cumulative(self, b: int) -> int:
        """Give C(b), out of 2^31."""
        return sum(w * cdf(b) for w, cdf in zip(self.weights, self.component_cdfs, strict=True))

    def high_bounds(self) -> list[int]:
        """Give the 17 bounds of the intervals of the high nibbles."""
        spread = (1 << 24) - 16
        return [((self.cumulative(16 * j) * spread) >> 31) + j for j in range(17)]

    def low_bounds(self, high: int) -> list[int]:
        """Give the 17 bounds of the intervals of the low nibbles."""
        spread = (1 << 24) - 16
        base = self.cumulative(16 * high)
        masses = [self.cumulative(16 * high + i) - base for i in range(17)]
        if masses[16] == 0:
            masses = list(range(17))
        return [(mass * spread) // masses[16] + i for i, mass in enumerate(masses)]

    def end_channel(self, sample: int) -> None:
        """Update the weights by what the channel turned out to be."""
        self.samples.append(sample)
        posterior = [
            w * (cdf(sample + 1) - cdf(sample))
            for w, cdf in zip(self.weights, self.component_cdfs, strict=True)
        ]
        self.weights = normalise(posterior if any(posterior) else self.weights)


# ---- Streams -------------------------------------------------------------------------------------


class Encoder:
    """Collects intervals; rANS codes them last to first."""

    def __init__(self) -> None:
        self.intervals: list[Vector] = []

    def code(self, bounds: Sequence[int], symbol: int) -> int:
        self.intervals.append((bounds[symbol], bounds[symbol + 1]))
        return symbol

    def finish(self) -> bytes:
        state, words = 0, []
        for left, right in reversed(self.intervals):
            frequency = right - left
            if state >> 40 >= frequency:
                words.append(state & 0xFFFFFFFF)
                state >>= 32
            state = (state // frequency << 24) + left + state % frequency
        while state:
            words.append(state & 0xFFFFFFFF)
            state >>= 32
        return struct.pack(f"<{len(words)}I", *words).rstrip(b"\0")


class Decoder:
    """Takes symbols from a stream."""

    def __init__(self, stream: bytes) -> None:
        assert not stream.endswith(b"\0"), "the last byte is 0"
        stream += bytes(-len(stream) % 4)
        self.words = list(struct.unpack(f"<{len(stream) // 4}I", stream))
        self.state = 0
        self.refill()

    def refill(self) -> None:
        while self.state < 1 << 32 and self.words:
            self.state = self.state << 32 | self.words.pop()

    def code(self, bounds: Sequence[int], _symbol: int) -> int:
        quotient = self.state & 0xFFFFFF
        symbol = max(i for i in range(len(bounds) - 1) if bounds[i] <= quotient)
        frequency = bounds[symbol + 1] - bounds[symbol]
        self.state = frequency * (self.state >> 24) + quotient - bounds[symbol]
        self.refill()
        return symbol

    def finish(self) -> None:
        assert (self.state, self.words) == (0, []), "the stream is not used up"


def code_images(
    coder: Encoder | Decoder,
    network: Network,
    ranks: Sequence[int],
    height: int,
    width: int,
    images: list[Planes],
    adaptation: Adaptation | None = None,
) -> None:
    """Walk through the symbols of a stream; a decoder fills in the images' planes."""
    coded = len(images[0])
    assert coded in (1, network.channels)
    assert adaptation is None or len(images) == 1
    features = [Features(network, ranks, height, width) for _ in images]
    for step in find_steps(ranks, height, width, sorted(network.offsets())):
        places = [(pixel, n) for pixel in step for n in range(len(images))]
        mixtures, seen = [], []
        for pixel, n in places:
            outputs = features[n].outputs(pixel)
            if adaptation:
                seen.append(adaptation.gather(features[n], pixel))
                outputs = adaptation.correct(outputs, seen[-1])
            mixtures.append(Mixture(network, outputs, features[n].linear(pixel)))
        for channel in range(coded):
            for mixture in mixtures:
                mixture.begin_channel()
            high = [
                coder.code(mixture.high_bounds(), images[n][channel][pixel] >> 4)
                for mixture, (pixel, n) in zip(mixtures, places, strict=True)
            ]
            for mixture, (pixel, n), top in zip(mixtures, places, high, strict=True):
                low = coder.code(mixture.low_bounds(top), images[n][channel][pixel] & 15)
                images[n][channel][pixel] = 16 * top + low
            for mixture, (pixel, n) in zip(mixtures, places, strict=True):
                mixture.end_channel(images[n][channel][pixel])
        if adaptation:
            gradients = [find_gradients(mixture, coded) for mixture in mixtures]
            adaptation.learn(list(zip(gradients, seen, strict=True)))
            for mixture, (pixel, _) in zip(mixtures, places, strict=True):
                adaptation.errors[pixel] = find_errors(mixture, coded)
        for pixel, n in places:
            values = [2 * plane[pixel] - 255 for plane in images[n]]
            features[n].inputs[pixel] = values * (network.channels // coded)


# ---- Deep samples --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """The values of a group of channels, and how their numbers are coded."""

    depth: int
    low: int = 0
    step: int = 1
    values: tuple[int, ...] = ()
    curve: bool = False
    sharpness: int = 16
    flatness: int = 0

    def value(self, number: int) -> int:
        """Give the sample that a number stands for."""
        assert number < 1 << self.depth
        value = self.values[number] if self.values else self.low + number * self.step
        assert value < 1 << 16
        return value

    def boundary(self, number: int) -> int:
        """Give B."""
        if self.curve:
            return isqrt(number << (40 - self.depth))
        return number << (20 - self.depth)

    def doubled(self, number: int) -> int:
        return self.boundary(number) + self.boundary(number + 1)

    def network_input(self, number: int) -> int:
        return clip((self.doubled(number) - (1 << 20) + 32) >> 6, -16383, 16383)


def deepen(network: Network) -> Network:
    """Give the network as it codes deep samples."""
    first, out = network.first, network.out
    is_mean = [1 <= o // network.mixtures <= network.channels for o in range(len(out.shift))]
    assert all(shift >= 6 for shift, mean in zip(out.shift, is_mean, strict=True) if mean)
    return replace(
        network,
        first=replace(
            first,
            mask_weight=[[64 * w for w in row] for row in first.mask_weight],
            bias=[64 * b for b in first.bias],
            shift=[s + 6 for s in first.shift],
        ),
        out=replace(out, shift=[s - 6 * m for s, m in zip(out.shift, is_mean, strict=True)]),
    )


class DeepMixture(Mixture):
    """The distribution of one deep pixel; `agreed` is what its neighbours agree on, if they do."""

    def __init__(
        self,
        network: Network,
        outputs: Sequence[int],
        linear: Sequence[int],
        scaling: Scaling,
        agreed: Sequence[int] | None,
    ) -> None:
        super().__init__(network, outputs, [0] * network.channels)
        self.scaling, self.agreed = scaling, agreed
        k = network.mixtures
        self.means = [
            [
                clip(m + linear[c] + 522240, -262144, 1310720)
                for m in outputs[(1 + c) * k : (2 + c) * k]
            ]
            for c in range(network.channels)
        ]

    def begin_channel(self) -> None:
        c = len(self.samples)
        means = list(self.means[c])
        for e, number in enumerate(self.samples):
            centre = (self.scaling.doubled(number) >> 1) - 2048
            for k, a in enumerate(self.couplings[e, c]):
                means[k] += (a * (centre - self.means[e][k]) + 512) >> 10
        means = [clip(m, -262144, 1310720) for m in means]
        scales = [
            max(1, look_up(self.network.inverse_scale, s) * self.scaling.sharpness >> 4)
            for s in self.log_scales[c]
        ]
        self.component_cdfs = [self.logistic_cdf(m, s) for m, s in zip(means, scales, strict=True)]

    def logistic_cdf(self, mean: int, scale: int) -> Callable[[int], int]:
        table, last = self.network.logistic, 1 << self.scaling.depth

        def cdf(b: int) -> int:
            if b == 0 or b >= last:
                return (b > 0) << 24
            place = ((self.scaling.boundary(b) - 2048 - mean) * scale >> 7) + (8192 << 8)
            i = clip(place, 0, 16383 << 8)
            here, after = table[i >> 8], table[min((i >> 8) + 1, 16383)]
            return (here << 8) + (after - here) * (i & 255)

        return cdf

    def cumulative(self, b: int) -> int:
        """Give C(b), out of 2^39, flat neighbourhoods included."""
        plain, share, c = super().cumulative(b), self.scaling.flatness, len(self.samples)
        if share and self.agreed and list(self.agreed[:c]) == self.samples:
            return plain - (plain * share >> 16) + (share << 23 if b > self.agreed[c] else 0)
        return plain

    def bounds(self, before: int, following: int) -> list[int]:
        """Give the 17 bounds of a nibble's intervals, after earlier nibbles and before others."""
        masses = [self.cumulative((16 * before + j) << 4 * following) for j in range(17)]
        masses = [mass - masses[0] for mass in masses]
        if masses[16] == 0:
            masses = list(range(17))
        return [mass * ((1 << 24) - 16) // masses[16] + j for j, mass in enumerate(masses)]


def find_agreement(features: Features, pixel: int, planes: Planes) -> list[int] | None:
    """Give what the visible neighbours of a pixel agree on, None if they do not."""
    seen = seen_pixels(features.ranks, features.height, features.width, pixel, NEIGHBOURS)
    numbers = [[plane[q] for plane in planes] for q in seen if q is not None]
    agree = len(numbers) >= 3 and all(other == numbers[0] for other in numbers)
    return numbers[0] if agree else None


def code_deep_images(
    coder: Encoder | Decoder,
    network: Network,
    ranks: Sequence[int],
    height: int,
    width: int,
    images: list[Planes],
    scaling: Scaling,
) -> None:
    """Walk through the symbols of a stream of deep samples; a decoder fills in their numbers."""
    coded, nibbles = len(images[0]), -(-scaling.depth // 4)
    assert coded in (1, network.channels)
    network = deepen(network)
    features = [Features(network, ranks, height, width) for _ in images]
    for step in find_steps(ranks, height, width, sorted(network.offsets())):
        places = [(pixel, n) for pixel in step for n in range(len(images))]
        mixtures = [
            DeepMixture(
                network,
                features[n].outputs(pixel),
                features[n].linear(pixel),
                scaling,
                find_agreement(features[n], pixel, images[n]),
            )
            for pixel, n in places
        ]
        for channel in range(coded):
            for mixture in mixtures:
                mixture.begin_channel()
            numbers = [0] * len(places)
            for following in reversed(range(nibbles)):
                for i, (mixture, (pixel, n)) in enumerate(zip(mixtures, places, strict=True)):
                    nibble = images[n][channel][pixel] >> 4 * following & 15
                    bounds = mixture.bounds(numbers[i], following)
                    numbers[i] = 16 * numbers[i] + coder.code(bounds, nibble)
            for mixture, (pixel, n), number in zip(mixtures, places, numbers, strict=True):
                images[n][channel][pixel] = number
                mixture.end_channel(number)
        for pixel, n in places:
            values = [scaling.network_input(plane[pixel]) for plane in images[n]]
            features[n].inputs[pixel] = values * (network.channels // coded)


# ---- Whole streams -------------------------------------------------------------------------------


def encode_stream(
    network: Network,
    ranks: Sequence[int],
    height: int,
    width: int,
    images: list[Planes],
    method: int = 1,
) -> bytes:
    """Code images of one shape, each a list of planes, as one stream."""
    encoder = Encoder()
    adaptation = start_adaptation(network, method, height * width)
    code_images(encoder, network, ranks, height, width, images, adaptation)
    return encoder.finish()


def decode_stream(
    stream: bytes,
    network: Network,
    ranks: Sequence[int],
    height: int,
    width: int,
    channels: int,
    count: int = 1,
    scaling: Scaling | None = None,
    method: int = 1,
) -> list[Planes]:
    """Decode the images of a stream."""
    decoder = Decoder(stream)
    images = [[[0] * (height * width) for _ in range(channels)] for _ in range(count)]
    if scaling is None:
        adaptation = start_adaptation(network, method, height * width)
        code_images(decoder, network, ranks, height, width, images, adaptation)
        decoder.finish()
        return images
    code_deep_images(decoder, network, ranks, height, width, images, scaling)
    decoder.finish()
    return [[[scaling.value(x) for x in plane] for plane in planes] for planes in images]
