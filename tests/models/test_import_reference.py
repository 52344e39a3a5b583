"""The importer and the network against an independent transcription of the authors' computation.

The transcription works on their parameter names and on nothing of ours but the order: masks from a
set of generated coordinates, explicit im2col, one matrix product a layer, all in double.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lmzip.errors import ModelError
from lmzip.models.import_reference import import_reference
from lmzip.models.lmconv import MaskSet
from lmzip.models.paper import PaperConfig
from lmzip.order.orders import Order, parse_order

State = dict[str, Tensor]
HEIGHT, WIDTH = 5, 6


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def make_state(
    *, channels: int = 3, outputs: int = 20, filters: int = 4, blocks: int = 2, size: int = 3,
    mask_weights: bool = False, weight_norm: bool = True,
) -> State:  # fmt: skip
    """Random parameters under the authors' names."""
    generator = torch.Generator().manual_seed(0)
    state: State = {}

    def convolution(name: str, inputs: int, outs: int) -> None:
        state[f"{name}.weight"] = torch.randn(outs, inputs, size, size, generator=generator)
        if mask_weights:
            state[f"{name}.mask_weight"] = torch.randn(outs, size, size, generator=generator)
        state[f"{name}.bias"] = torch.randn(outs, generator=generator)

    def pointwise(name: str, inputs: int, outs: int) -> None:
        state[f"{name}.lin_a.bias"] = torch.randn(outs, generator=generator)
        weight = torch.randn(outs, inputs, generator=generator)
        if weight_norm:
            state[f"{name}.lin_a.weight_g"] = torch.randn(outs, 1, generator=generator)
            state[f"{name}.lin_a.weight_v"] = weight
        else:
            state[f"{name}.lin_a.weight"] = weight

    convolution("u_init", channels + 1, filters)
    for name, counts in (("down_layers", (0, 1, 1)), ("up_layers", (0, 0, 0))):
        for stage, extra in enumerate(counts):
            for block in range(blocks + extra):
                prefix = f"{name}.{stage}.u_stream.{block}"
                convolution(f"{prefix}.conv_input", 2 * filters, filters)
                if name == "down_layers":
                    pointwise(f"{prefix}.nin_skip", 2 * filters, filters)
                convolution(f"{prefix}.conv_out", 2 * filters, 2 * filters)
    for stage in range(2):
        convolution(f"downsize_u_stream.{stage}", filters, filters)
        convolution(f"upsize_u_stream.{stage}", filters, filters)
    pointwise("nin_out", filters, outputs)
    return state


class Transcription:
    """What the authors' network computes, from their parameters."""

    def __init__(self, state: State, order: Order, blocks: int, dilation: int) -> None:
        self.state = {name: tensor.double() for name, tensor in state.items()}
        self.blocks = blocks
        size = state["u_init.weight"].shape[2]
        self.first_mask = self.make_mask(order, size, 1, centre=False)
        self.mask = self.make_mask(order, size, 1, centre=True)
        self.dilated_mask = self.make_mask(order, size, dilation, centre=True)
        self.dilation = dilation

    @staticmethod
    def make_mask(order: Order, size: int, dilation: int, *, centre: bool) -> Tensor:
        half = size // 2
        mask = torch.zeros(size, size, HEIGHT, WIDTH, dtype=torch.float64)
        generated: set[tuple[int, int]] = set()
        for position in order.positions(HEIGHT, WIDTH).tolist():
            row, column = divmod(position, WIDTH)
            for i in range(size):
                for j in range(size):
                    tap = row + dilation * (i - half), column + dilation * (j - half)
                    mask[i, j, row, column] = float(tap in generated)
            generated.add((row, column))
            mask[half, half, row, column] = float(centre)
        return mask.view(size * size, HEIGHT * WIDTH)

    def convolve(self, name: str, x: Tensor, mask: Tensor, dilation: int = 1) -> Tensor:
        weight = self.state[f"{name}.weight"]
        outs, inputs, size, _ = weight.shape
        margin = dilation * (size // 2)
        padded = F.pad(x, (margin, margin, margin, margin))
        patches = torch.stack(
            [
                padded[:, :, i * dilation : i * dilation + HEIGHT, j * dilation :][..., :WIDTH]
                for i in range(size)
                for j in range(size)
            ],
            2,
        ).flatten(3)  # (B, C, k k, H W)
        y = torch.einsum("oct,bctp->bop", weight.view(outs, inputs, -1), patches * mask)
        if f"{name}.mask_weight" in self.state:
            y = y + self.state[f"{name}.mask_weight"].flatten(1) @ mask
        return (y + self.state[f"{name}.bias"][:, None]).view(-1, outs, HEIGHT, WIDTH)

    def pointwise(self, name: str, x: Tensor) -> Tensor:
        state = {key: self.state.get(f"{name}.lin_a.{key}") for key in ("weight", "weight_v")}
        weight = state["weight"]
        if weight is None:
            direction = state["weight_v"]
            assert direction is not None
            length = direction.pow(2).sum(1, keepdim=True).sqrt()
            weight = self.state[f"{name}.lin_a.weight_g"] * direction / length
        y = torch.einsum("oc,bchw->bohw", weight, x)
        return y + self.state[f"{name}.lin_a.bias"][:, None, None]

    @staticmethod
    def normalise(x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        variance = centred.pow(2).sum(1, keepdim=True) / (x.shape[1] - 1)
        return centred / (variance + 1e-5).sqrt()

    @staticmethod
    def concat_elu(x: Tensor) -> Tensor:
        both = torch.cat((x, -x), 1)
        return torch.where(both > 0, both, torch.expm1(both))

    def block(self, name: str, x: Tensor, skip: Tensor | None = None) -> Tensor:
        h = self.normalise(self.convolve(f"{name}.conv_input", self.concat_elu(x), self.mask))
        if skip is not None:
            h = h + self.pointwise(f"{name}.nin_skip", self.concat_elu(skip))
        h = self.convolve(f"{name}.conv_out", self.concat_elu(h), self.mask)
        half = h.shape[1] // 2
        return x + self.normalise(h[:, :half]) * torch.sigmoid(h[:, half:])

    def dilate(self, name: str, x: Tensor) -> Tensor:
        return self.normalise(self.convolve(name, x, self.dilated_mask, self.dilation))

    def __call__(self, x: Tensor) -> Tensor:
        x = torch.cat((x, torch.ones_like(x[:, :1])), 1)
        stack = [self.normalise(self.convolve("u_init", x, self.first_mask))]
        for stage in range(3):
            for block in range(self.blocks):
                stack.append(self.block(f"up_layers.{stage}.u_stream.{block}", stack[-1]))
            if stage < 2:
                stack.append(self.dilate(f"downsize_u_stream.{stage}", stack[-1]))
        u = stack.pop()
        for stage in range(3):
            for block in range(self.blocks + (stage > 0)):
                u = self.block(f"down_layers.{stage}.u_stream.{block}", u, stack.pop())
            if stage < 2:
                u = self.dilate(f"upsize_u_stream.{stage}", u)
        assert not stack
        return self.pointwise("nin_out", torch.where(u > 0, u, torch.expm1(u)))


def transcribed_loss(levels: Tensor, outputs: Tensor, count: int) -> Tensor:
    """Their discretised mixture in colour (B, H, W), where nothing is extreme."""
    logistics = outputs.shape[1] // 10
    x = 2.0 * levels.double() / (count - 1) - 1
    total = outputs[:, :logistics].log_softmax(1)
    rest = outputs[:, logistics:].reshape(-1, 3, 3, logistics, HEIGHT, WIDTH)
    means, coefficients = rest[:, :, 0], rest[:, :, 2].tanh()
    shifts = [
        torch.zeros_like(x[:, :1]),
        coefficients[:, 0] * x[:, :1],
        coefficients[:, 1] * x[:, :1] + coefficients[:, 2] * x[:, 1:2],
    ]
    for channel, shift in enumerate(shifts):
        value, scale = x[:, channel : channel + 1], rest[:, channel, 1].clamp(min=-7).exp()
        mean = means[:, channel] + shift
        above = torch.sigmoid((value - mean + 1 / (count - 1)) / scale)
        below = torch.sigmoid((value - mean - 1 / (count - 1)) / scale)
        above = torch.where(value > 0.999, torch.ones_like(above), above)
        below = torch.where(value < -0.999, torch.zeros_like(below), below)
        total = total + (above - below).log()
    return -total.exp().sum(1).log()


def checkpoint_of(state: State, **arguments: object) -> dict[str, object]:
    """A file as their training loop writes it, numpy scalars included."""
    return {
        "test_loss_3x32x32": np.float64(2.91),
        "epoch": 7,
        "global_step": 1234,
        "args": {"normalization": "pono", "n_bits": 8, "max_dilation": 2, **arguments},
        "model_state_dict": state,
        "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 2e-4, "betas": (0.9, 0.99)}]},
    }


def save(tmp_path: Path, content: object, **options: Any) -> Path:
    path = tmp_path / "reference.pth"
    torch.save(content, path, **options)
    return path


CASES: dict[str, dict[str, Any]] = {
    "colour": {},
    "grey": {"channels": 1, "outputs": 6},
    "binary": {"channels": 1, "outputs": 2},
    "mask conditioning": {"mask_weights": True},
    "5x5 kernel": {"size": 5, "blocks": 1},
    "plain 1x1 layers": {"weight_norm": False},
}


@pytest.mark.parametrize("order", ["s-curve", "raster:transpose-mirror", "hilbert"])
@pytest.mark.parametrize("case", CASES)
def test_forward_pass_is_the_authors(tmp_path: Path, case: str, order: str) -> None:
    state = make_state(**CASES[case])
    network = import_reference(save(tmp_path, checkpoint_of(state))).double()
    x = torch.rand(2, network.channels, HEIGHT, WIDTH, dtype=torch.float64) * 2 - 1
    pixel_order = parse_order(order)
    expected = Transcription(state, pixel_order, network.config.blocks, 2)(x)
    with torch.no_grad():
        actual = network(x, MaskSet(pixel_order.ranks(HEIGHT, WIDTH)))
    # The gains of plain weights are computed in float32.
    tolerance = 1e-9 if "nin_out.lin_a.weight_g" in state else 1e-4
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_float32_agrees_to_rounding(tmp_path: Path) -> None:
    state, order = make_state(), parse_order("s-curve:rotate")
    network = import_reference(save(tmp_path, state))
    x = torch.rand(2, 3, HEIGHT, WIDTH) * 2 - 1
    expected = Transcription(state, order, 2, 2)(x.double())
    with torch.no_grad():
        actual = network(x, MaskSet(order.ranks(HEIGHT, WIDTH)))
    torch.testing.assert_close(actual.double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_bits", "levels"), [(8, 256), (5, 32)])
def test_likelihood_is_the_authors(tmp_path: Path, n_bits: int, levels: int) -> None:
    state = make_state()
    state["nin_out.lin_a.weight_g"] *= 0.2  # keeps their cruder formula out of its tails
    order = parse_order("s-curve")
    network = import_reference(save(tmp_path, checkpoint_of(state, n_bits=n_bits))).double()
    assert network.levels == levels
    images = torch.randint(levels, (2, 3, HEIGHT, WIDTH))
    images[0, :, 0, :2] = torch.tensor([0, levels - 1])
    outputs = Transcription(state, order, 2, 2)(2.0 * images.double() / (levels - 1) - 1)
    with torch.no_grad():
        actual = network.nll(images, MaskSet(order.ranks(HEIGHT, WIDTH)))
    torch.testing.assert_close(actual, transcribed_loss(images, outputs, levels))


def test_configuration_is_inferred(tmp_path: Path) -> None:
    state = make_state(mask_weights=True, outputs=30, filters=6, size=5)
    path = save(tmp_path, checkpoint_of(state, n_bits=5, max_dilation=4))
    expected = PaperConfig(
        levels=32, filters=6, blocks=2, logistics=3, kernel_size=5, dilation=4,
        mask_conditioning=True,
    )  # fmt: skip
    assert import_reference(path).config == expected
    overridden = import_reference(path, levels=256, dilation=1).config
    assert (overridden.levels, overridden.dilation) == (256, 1)
    binary = import_reference(save(tmp_path, make_state(channels=1, outputs=2)))
    assert binary.config == PaperConfig(channels=1, levels=2, filters=4, blocks=2)
    assert all(parameter.requires_grad for parameter in binary.parameters())


@pytest.mark.parametrize("kept", ["lin_a.bias", "none"])
def test_missing_biases_are_zero(tmp_path: Path, kept: str) -> None:
    state = {
        name: torch.zeros_like(tensor)
        if name.endswith(".bias") and not name.endswith(kept)
        else tensor
        for name, tensor in make_state().items()
    }
    without_zeros = {n: t for n, t in state.items() if t.any() or not n.endswith(".bias")}
    network = import_reference(save(tmp_path, without_zeros)).double()
    order = parse_order("s-curve")
    x = torch.rand(1, 3, HEIGHT, WIDTH, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        actual = network(x, MaskSet(order.ranks(HEIGHT, WIDTH)))
    torch.testing.assert_close(actual, Transcription(state, order, 2, 2)(x), rtol=1e-9, atol=1e-9)


WRAPPINGS: dict[str, Callable[[State], object]] = {
    "bare": lambda state: state,
    "model": lambda state: {"model": state},
    "state_dict": lambda state: {"state_dict": state},
    "parallel": lambda state: checkpoint_of({f"module.{k}": v for k, v in state.items()}),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("zipped", [True, False])  # torch before 1.6 wrote no zip files
def test_wrappings(tmp_path: Path, wrapping: str, zipped: bool) -> None:
    state = make_state(blocks=1)
    content = WRAPPINGS[wrapping](state)
    network = import_reference(save(tmp_path, content, _use_new_zipfile_serialization=zipped))
    assert torch.equal(network.first.weight, state["u_init.weight"])
    assert torch.equal(network.output.gain, state["nin_out.lin_a.weight_g"])


def without(name: str) -> State:
    state = make_state(blocks=1)
    del state[name]
    return state


def changed(name: str, *shape: int) -> State:
    return make_state(blocks=1) | {name: torch.zeros(shape)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (without("u_init.weight"), "u_init.weight"),
        (without("up_layers.1.u_stream.0.conv_out.bias"), "missing parameters: up_layers.1.u_st"),
        (changed("ul_init.0.conv.weight", 1), "unexpected parameters: ul_init.0.conv.weight"),
        (changed("upsize_u_stream.1.bias", 5), r"upsize_u_stream.1.bias has shape \(5,\), exp"),
        (changed("u_init.weight", 4, 5, 3, 3), "1 or 3 channels, not 4"),
        (changed("nin_out.lin_a.bias", 25), r"nin_out.lin_a"),
        (checkpoint_of(make_state(), normalization="order_rescale"), "'order_rescale'"),
        (checkpoint_of(make_state(), n_bits="many"), "n_bits='many'"),
        (changed("u_init.weight_g", 4, 1, 1, 1), "'weight_norm'"),
        ({"model_state_dict": {"epoch": 3}}, "epoch is not a tensor"),
        ({"model_state_dict": [1, 2]}, "not a dict"),
        ([1, 2], "not a checkpoint, but a list"),
    ],
)  # fmt: skip
def test_foreign_contents_are_refused(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ModelError, match=message) as refusal:
        import_reference(save(tmp_path, content))
    assert "\n" not in str(refusal.value)
    assert "reference.pth" in str(refusal.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "reference.pth"
    with pytest.raises(ModelError, match="No such file"):
        import_reference(path)
    whole = save(tmp_path, make_state(blocks=1), _use_new_zipfile_serialization=False).read_bytes()
    renamed = whole.replace(b"conv_out", b"conv_\xff\xff\xff", 1)
    for content in (b"", b"hello", whole[:50], whole[:5000], renamed):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="not a readable checkpoint") as refusal:
            import_reference(path)
        assert "\n" not in str(refusal.value)


class Malicious:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.victim,)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    victim = tmp_path / "executed"
    path = save(tmp_path, checkpoint_of(make_state(blocks=1), extra=Malicious(victim)))
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        import_reference(path)
    pickle.loads(pickle.dumps(Malicious(victim)))  # the trap works where pickles are trusted
    assert victim.exists()
