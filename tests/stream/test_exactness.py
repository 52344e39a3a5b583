"""The same bytes everywhere: whatever computes a stream, however much of it at once.

Threads, batches, spans, backends and BLAS kernels may change nothing, and an oracle that knows only
Python's integers must agree. Since a check that cannot fail proves nothing, the same comparison is
made with networks whose sums leave float32's integers; there it has to fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import oracle, oracle_streams
from support.networks import (
    ANY_ORDER,
    Images,
    compact_network,
    custom_order,
    harsh_images,
    random_network,
    smooth_images,
    to_oracle,
    write_model,
)

import lmzip
from lmzip.classical import ADAPTIVE, AWARE
from lmzip.container.methods import MANNERS
from lmzip.native.backends import find_backend, list_kernels
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import EXACT, IntegerNetwork, load_integer_network
from lmzip.order.orders import Order
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images

HEIGHT, WIDTH = 10, 20
RASTER = Order("raster")
OTHERS = [Order("raster", 7), Order("s-curve", 2), Order("hilbert"), custom_order(7, 8)]
LIFTED = 1 << 27
BACKENDS = ["numpy", *(kernel.name for kernel in list_kernels())]


def to_planes(images: Images) -> list[oracle_streams.Planes]:
    """Return images as the oracle takes them."""
    channels = range(images.shape[3])
    return [[image[..., c].ravel().tolist() for c in channels] for image in images]


def encode_in_every_way(network: IntegerNetwork, order: Order, images: Images) -> dict[str, bytes]:
    """Return the stream of some images from every encoder there is."""
    _, height, width, _ = images.shape
    ranks = order.ranks(height, width).ravel().tolist()
    ways = {
        "oracle": oracle_streams.encode_stream(
            to_oracle(network), ranks, height, width, to_planes(images)
        )
    }
    for backend, spans in (("numpy", (1, 3, 17, height * width, None)), ("torch", (17, None))):
        for span in spans:
            (stream,) = encode_images(network, order, images, get_backend(backend), span=span)
            ways[f"{backend}, span {span}"] = stream.data
    return ways


def encode_by_kernels(network: IntegerNetwork, order: Order, images: Images) -> dict[str, bytes]:
    """Return the stream of some images from every kernel that runs here."""
    return {
        f"{kernel.name}, span {span}": encode_images(network, order, images, kernel, span=span)[
            0
        ].data
        for kernel in list_kernels()
        for span in (1, 3, 17, None)
    }


def test_test_networks_drive_sums_beyond_half_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the comparisons of this file would be about small numbers."""
    network = to_oracle(random_network(orders=("raster",)))
    largest: dict[int, int] = {}
    measure = oracle_streams.Layer.sums

    def sums(layer: oracle_streams.Layer, inputs: list[list[int] | None]) -> list[int]:
        totals = measure(layer, inputs)
        largest[id(layer)] = max(largest.get(id(layer), 0), *map(abs, totals))
        return totals

    monkeypatch.setattr(oracle_streams.Layer, "sums", sums)
    ranks = RASTER.ranks(HEIGHT, WIDTH).ravel().tolist()
    images = to_planes(harsh_images(2, HEIGHT, WIDTH))
    oracle_streams.encode_stream(network, ranks, HEIGHT, WIDTH, images)
    assert len(largest) == 2 + 2 * len(network.blocks)
    assert all(EXACT // 2 < peak < EXACT for peak in largest.values())


def check_every_way(network: IntegerNetwork, order: Order, images: Images) -> None:
    """All encoders write one stream, and all decoders read it."""
    ways = encode_in_every_way(network, order, images) | encode_by_kernels(network, order, images)
    assert len(set(ways.values())) == 1, ways.keys()
    stream, shape = ways["oracle"], images.shape[1:]
    for name in (*BACKENDS, "torch"):
        decoded = decode_images(network, order, shape, [stream], [len(images)], find_backend(name))
        assert np.array_equal(decoded, images)
    height, width, channels = shape
    ranks = order.ranks(height, width).ravel().tolist()
    planes = oracle_streams.decode_stream(
        stream, to_oracle(network), ranks, height, width, channels, len(images)
    )
    assert planes == to_planes(images)


@pytest.mark.parametrize("make", [random_network, compact_network])
def test_every_coder_agrees_in_raster_order(make: Callable[..., IntegerNetwork]) -> None:
    check_every_way(make(orders=("raster",)), RASTER, harsh_images(2, HEIGHT, WIDTH))


@pytest.mark.parametrize("order", OTHERS, ids=str)
def test_every_coder_agrees_in_any_order(order: Order) -> None:
    check_every_way(random_network(), order, harsh_images(2, 7, 8))
    check_every_way(compact_network(orders=ANY_ORDER), order, smooth_images(1, 7, 8))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("method", [ADAPTIVE, AWARE])
@pytest.mark.parametrize("order", [RASTER, Order("s-curve", 2)], ids=str)
def test_every_coder_adapts_alike(order: Order, channels: int, method: int) -> None:
    """The oracle's integers, the engine's floats and the kernels learn the same."""
    network, manner = compact_network(orders=ANY_ORDER), MANNERS[method]
    for draw in (smooth_images, harsh_images):
        images = draw(1, 13, 24, channels)
        _, height, width, _ = images.shape
        ranks = order.ranks(height, width).ravel().tolist()
        shape = height, width, channels
        oracle_network = to_oracle(network)
        expected = oracle_streams.encode_stream(
            oracle_network, ranks, height, width, to_planes(images), method
        )
        for name in (*BACKENDS, "torch"):
            backend = find_backend(name)
            (stream,) = encode_images(network, order, images, backend, manner=manner)
            assert stream.data == expected, name
            data = [expected]
            decoded = decode_images(network, order, shape, data, [1], backend, manner=manner)
            assert np.array_equal(decoded, images), name
        (plain,) = encode_images(network, order, images, get_backend())
        assert plain.data != expected
        decoded_by_oracle = oracle_streams.decode_stream(
            expected, oracle_network, ranks, height, width, channels, method=method
        )
        assert decoded_by_oracle == to_planes(images)


def test_a_single_channel_is_the_same_stream_everywhere() -> None:
    for channels in (1, 3):
        check_every_way(
            random_network(channels=channels), Order("s-curve"), harsh_images(2, 7, 8, 1)
        )


def test_with_the_bound_lifted_the_comparison_fails() -> None:
    network = random_network(orders=("raster",), limit=LIFTED)
    with pytest.raises(lmzip.ModelError, match="2\\^24"):
        network.prove_exact()
    ways = encode_in_every_way(network, RASTER, harsh_images(2, HEIGHT, WIDTH))
    exact = ways.pop("oracle")
    assert exact not in ways.values()


@pytest.mark.parametrize("name", BACKENDS)
def test_images_computed_together_do_not_change_the_streams(name: str) -> None:
    network, backend = random_network(orders=("raster",)), find_backend(name)
    images = np.concatenate([harsh_images(32, 6, 7), smooth_images(32, 6, 7)])

    def encode(at_once: int) -> list[bytes]:
        streams = []
        for start in range(0, len(images), at_once):
            part = images[start : start + at_once]
            coded = encode_images(network, RASTER, part, backend, groups=[1] * len(part))
            streams += [stream.data for stream in coded]
        return streams

    alone = encode(1)
    assert encode(3) == encode(64) == alone
    for at_once in (3, 64):
        for start in range(0, len(images), at_once):
            part = alone[start : start + at_once]
            decoded = decode_images(network, RASTER, (6, 7, 3), part, [1] * len(part), backend)
            assert np.array_equal(decoded, images[start : start + at_once])


@pytest.mark.parametrize("name", BACKENDS)
def test_groups_of_different_sizes_share_a_computation(name: str) -> None:
    network, backend = random_network(), find_backend(name)
    images, groups, order = harsh_images(64, 5, 4), [1, 3, 60], Order("hilbert")
    together = encode_images(network, order, images, backend, groups=groups)
    bounds = np.cumsum([0, *groups])
    for stream, first, last in zip(together, bounds, bounds[1:], strict=False):
        (by_itself,) = encode_images(network, order, images[first:last], backend)
        assert by_itself.data == stream.data
        assert np.array_equal(by_itself.costs, stream.costs)
    decoded = decode_images(network, order, (5, 4, 3), [s.data for s in together], groups, backend)
    assert np.array_equal(decoded, images)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file; tiles and batches small enough to be many."""
    monkeypatch.setattr("lmzip.container.tiles.TILE", (16, 16))
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 300)
    return write_model(random_network(orders=("raster",)), tmp_path)


def test_threads_and_batches_do_not_change_a_file(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image,) = harsh_images(1, 20, 35)
    many = harsh_images(7, 10, 12)
    files, archives = [], []
    for threads, job_pixels in ((1, 1), (1, 360), (1, 1 << 18), (2, 1)):
        monkeypatch.setattr("lmzip.container.archive_writer.JOB_PIXELS", job_pixels)
        monkeypatch.setattr("lmzip.container.archive_reader.JOB_PIXELS", job_pixels)
        files.append(lmzip.compress(image, model=model, threads=threads))
        archives.append(lmzip.compress_batch(many, model=model, threads=threads))
        assert np.array_equal(lmzip.decompress(files[0], model=model, threads=threads), image)
        with lmzip.open_archive(archives[0], model=model, threads=threads) as archive:
            assert np.array_equal(archive[:], many)
    assert len(set(files)) == len(set(archives)) == 1

    network = oracle_streams.read_model(model.read_bytes())
    assert oracle.decode_image(files[0], [network]) == image.tolist()
    assert oracle.decode_archive(archives[0], [network]) == many.tolist()


_DIGEST_SCRIPT = """
import hashlib, json, sys
from pathlib import Path
import numpy as np
from threadpoolctl import threadpool_info
from lmzip.network.backend import get_backend
from lmzip.stream.encoder import encode_images
from lmzip.network.integer_network import load_integer_network
from lmzip.order.orders import Order

network, images = load_integer_network(Path(sys.argv[1])), np.load(sys.argv[2])
streams = [encode_images(network, Order("raster"), images, get_backend(), span=span)
           for span in (1, 5, 1000)]
digests = {hashlib.sha256(stream.data).hexdigest() for (stream,) in streams}
kernels = [i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas"]
print(json.dumps([kernels, sorted(digests)]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels named here are x86's")
def test_other_blas_kernels_write_the_same_stream(tmp_path: Path) -> None:
    path = write_model(random_network(orders=("raster",)), tmp_path)
    images = harsh_images(3, 20, 21)
    np.save(tmp_path / "images.npy", images)
    network = load_integer_network(path)
    (expected,) = encode_images(network, RASTER, images, get_backend())

    kernels = set()
    for core in ("Prescott", "Nehalem", "Haswell", "Zen"):
        answer = subprocess.run(
            [sys.executable, "-P", "-c", _DIGEST_SCRIPT, path, tmp_path / "images.npy"],
            env={**os.environ, "OPENBLAS_CORETYPE": core},
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        architectures, digests = json.loads(answer.stdout)
        if not architectures:
            pytest.skip("numpy does not use OpenBLAS here")
        kernels.update(architectures)
        assert digests == [hashlib.sha256(expected.data).hexdigest()]
    assert len(kernels) >= 3, f"the kernels did not change: {kernels}"
