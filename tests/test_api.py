"""The public functions: layouts, types, options, what a file says of itself, and named errors."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.networks import ANY_ORDER, compact_network, custom_order, smooth_images, write_model

import lmzip
from lmzip.options import Options
from lmzip.order.orders import FAMILIES, VARIANTS, Order
from lmzip.picture import MODES, Samples
from lmzip.selection import list_choices

PUBLIC = {
    "EFFORTS",
    "LIMIT_FLAGS",
    "MODES",
    "REGIONS",
    "Archive",
    "BitCosts",
    "Choice",
    "DamagedError",
    "FingerprintError",
    "FormatError",
    "ImageInfo",
    "Info",
    "InputError",
    "Kernel",
    "LimitError",
    "Limits",
    "LmzipError",
    "Mode",
    "Model",
    "ModelEntry",
    "ModelError",
    "Options",
    "Order",
    "OrderError",
    "Picture",
    "Progress",
    "Region",
    "Samples",
    "VersionError",
    "check_options",
    "choose_model_and_order",
    "complete_image",
    "completion_order",
    "compress",
    "compress_batch",
    "compress_picture",
    "count_threads",
    "decompress",
    "decompress_picture",
    "decompress_region",
    "describe_backend",
    "expand_orders",
    "is_archive",
    "list_images",
    "list_models",
    "load_model",
    "make_mask",
    "make_regions",
    "measure_bits",
    "measure_region",
    "mode_of",
    "open_archive",
    "pack_archive",
    "parse_order",
    "parse_size",
    "read_info",
    "read_model_and_order",
    "salvage_picture",
    "sample_images",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    write_model(compact_network(name="raster"), folder)
    write_model(compact_network(orders=ANY_ORDER, name="any"), folder)
    return folder


@pytest.fixture
def released(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the folder's models be the released ones."""
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", folder)
    return folder


def test_public_names_are_exact() -> None:
    assert set(lmzip.__all__) == PUBLIC
    assert len(lmzip.__all__) == len(PUBLIC)
    for name in PUBLIC:
        value = getattr(lmzip, name)  # a type alias or a constant has no name of its own
        assert name.isupper() or name in ("Progress", "Samples") or value.__name__ == name
    errors = importlib.import_module("lmzip.errors")
    for name, value in vars(errors).items():
        if isinstance(value, type):
            assert issubclass(value, lmzip.LmzipError)
            assert name in PUBLIC
    assert issubclass(lmzip.OrderError, lmzip.InputError)
    assert issubclass(lmzip.FingerprintError, lmzip.ModelError)
    assert {*PUBLIC} <= set(dir(lmzip))
    with pytest.raises(AttributeError, match="'nothing'"):
        lmzip.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_lmzip_imports_no_torch() -> None:
    script = (
        "import sys, lmzip, lmzip.api, lmzip.container.info\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", script], check=True)


# ---- Layouts and types ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "channels"),
    [(np.bool_, 1), *[(dtype, n) for dtype in (np.uint8, np.uint16) for n in (1, 2, 3, 4)]],
)
def test_layouts_of_single_images(dtype: type, channels: int, released: Path) -> None:
    levels = 2 if dtype is np.bool_ else 256 if dtype is np.uint8 else 65536
    state = np.random.default_rng(0)
    image: Samples = state.integers(0, levels, (5, 6, channels)).astype(dtype)
    views = {"HWC": image, "CHW": image.transpose(2, 0, 1)}
    if channels == 1:
        views["HW"] = image[..., 0]
    files = {layout: lmzip.compress(view, layout=layout) for layout, view in views.items()}
    assert len(set(files.values())) == 1
    for layout, view in views.items():
        found = lmzip.decompress(files[layout], layout=layout)
        assert found.dtype == view.dtype
        assert found.shape == view.shape
        assert np.array_equal(found, view)
        assert found.flags.c_contiguous
        region = lmzip.decompress_region(files[layout], 1, 2, 3, 4, layout=layout)
        assert np.array_equal(
            lmzip.decompress(lmzip.compress(region, layout=layout)), image[1:4, 2:6]
        )


def test_layouts_of_batches(released: Path) -> None:
    images = smooth_images(3, 5, 6, 1)
    views = {"NHWC": images, "NCHW": images.transpose(0, 3, 1, 2), "NHW": images[..., 0]}
    files = {layout: lmzip.compress_batch(view, layout=layout) for layout, view in views.items()}
    files["list"] = lmzip.compress_batch(list(images))
    files["generator"] = lmzip.compress_batch(image for image in images)
    assert len(set(files.values())) == 1
    with lmzip.open_archive(files["NHWC"]) as archive:
        assert np.array_equal(archive[:], images)


def test_torch_tensors_are_arrays(released: Path) -> None:
    images = smooth_images(2, 5, 6)
    tensor = torch.from_numpy(images).permute(0, 3, 1, 2)
    assert lmzip.compress(tensor[0], layout="CHW") == lmzip.compress(images[0])
    assert lmzip.compress_batch(tensor, layout="NCHW") == lmzip.compress_batch(images)
    grey = torch.arange(30).reshape(5, 6) > 12
    assert lmzip.compress(grey, layout="HW") == lmzip.compress(grey.numpy()[..., None])


def test_arrays_of_any_memory_layout(released: Path) -> None:
    (image,) = smooth_images(1, 8, 10)
    expected = lmzip.compress(image)
    assert lmzip.compress(np.asfortranarray(image)) == expected
    wide = np.zeros((16, 20, 3), np.uint8)
    wide[::2, ::2] = image
    assert lmzip.compress(wide[::2, ::2]) == expected
    big_endian = np.arange(12, dtype=">u2").reshape(3, 4, 1) * 5000
    assert np.array_equal(lmzip.decompress(lmzip.compress(big_endian)), big_endian)
    read_only = image.copy()
    read_only.flags.writeable = False
    assert lmzip.compress(read_only) == expected
    found = lmzip.decompress(expected)
    found[0, 0] = 1  # the caller's own


# ---- Options -------------------------------------------------------------------------------------


def test_models_by_name_by_path_and_by_default(released: Path) -> None:
    (image,) = smooth_images(1, 8, 10)
    by_name = lmzip.compress(image, model="raster")
    assert lmzip.compress(image, model=released / "raster.safetensors") == by_name
    assert lmzip.compress(image, model=str(released / "raster.safetensors")) == by_name
    assert lmzip.read_info(by_name).model == "raster"
    assert np.array_equal(lmzip.decompress(by_name), image)
    assert lmzip.read_info(lmzip.compress(image, order="hilbert")).model == "any"


@pytest.mark.parametrize("order", [f"{f}:{v}" for f in FAMILIES for v in VARIANTS] + [*FAMILIES])
def test_orders_by_name(order: str, released: Path) -> None:
    (image,) = smooth_images(1, 4, 5)
    data = lmzip.compress(image, model="any", order=order)
    assert lmzip.read_info(data).order == order.removesuffix(":plain")
    assert np.array_equal(lmzip.decompress(data), image)


def test_orders_as_permutations(released: Path) -> None:
    (image,) = smooth_images(1, 4, 5)
    order = custom_order(4, 5)
    assert order.permutation is not None
    expected = lmzip.compress(image, order=order)
    flat = np.array(order.permutation)
    for same in (flat, flat.reshape(4, 5), flat.astype(np.uint16), list(order.permutation)):
        assert lmzip.compress(image, order=same) == expected  # type: ignore[arg-type]
    assert lmzip.read_info(expected).order == "custom"
    assert np.array_equal(lmzip.decompress(expected), image)


def test_best_is_the_best_of_all(released: Path) -> None:
    (image,) = smooth_images(1, 12, 13)
    sizes = [
        len(lmzip.compress(image, model="any", order=Order(family, variant)))
        for family in ("raster", "s-curve")
        for variant in range(8)
    ]
    data = lmzip.compress(image, model="any", order="best")
    assert len(data) <= min(sizes) + 4  # costs choose, and a stream is whole words
    assert np.array_equal(lmzip.decompress(data), image)


def test_best_tries_every_model_in_its_own_orders(released: Path) -> None:
    tried = [(model.name, str(order)) for model, order in list_choices(Options(order="best"))]
    special = {name for name, order in tried if order == "raster"} - {"any"}
    assert special, "models for raster order alone are candidates too"
    assert len([order for name, order in tried if name == "any"]) == 16


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_progress_reaches_the_total(
    threads: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.tiles.TILE", (8, 8))
    (image,) = smooth_images(1, 20, 12)
    told: list[tuple[int, int]] = []
    model = folder / "raster.safetensors"
    lmzip.compress(
        image, model=model, threads=threads, progress=lambda done, total: told.append((done, total))
    )
    assert told[-1] == (240, 240)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    told.clear()
    lmzip.compress_batch(
        image[None], model=model, progress=lambda done, total: told.append((done, total))
    )
    assert told[-1][0] == told[-1][1]


# ---- What a file says of itself ------------------------------------------------------------------


def test_info_of_an_image(folder: Path, tmp_path: Path) -> None:
    model = folder / "raster.safetensors"
    (image,) = smooth_images(1, 40, 50)
    picture = lmzip.Picture(image, MODES["RGB"], {"ICCP": b"12345"})
    data = lmzip.compress_picture(picture, lmzip.Options(model=str(model)))
    path = tmp_path / "image.lmz"
    path.write_bytes(data)
    info = lmzip.read_info(data)
    assert info == lmzip.read_info(path) == lmzip.read_info(str(path))
    assert (info.height, info.width, info.mode, info.count) == (40, 50, "RGB", 1)
    assert (info.method, info.model, info.order) == ("network", "raster", "raster")
    assert info.fingerprint == compact_network(name="raster").fingerprint()[:16]
    assert (info.is_archive, info.version, info.tiles) == (False, 2, (1, 1))
    assert info.metadata == {"ICCP": 5}
    assert (info.size, info.samples) == (len(data), image.size)
    assert info.bpd == 8 * len(data) / image.size
    assert info.model_bpd is not None
    assert info.model_bpd < info.bpd < info.model_bpd + 8 * 100 / image.size


def test_info_of_classical_files() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (10, 10, 3), dtype=np.uint8)
    info = lmzip.read_info(lmzip.compress(noise))
    assert (info.method, info.model, info.fingerprint, info.order) == ("raw", None, None, None)
    assert info.model_bpd is None
    flat = lmzip.read_info(lmzip.compress(np.zeros((50, 50, 3), np.uint8)))
    assert flat.method == "webp"
    assert lmzip.read_info(lmzip.compress(np.zeros((9, 9, 1), bool))).mode == "1"


def test_info_of_archives(folder: Path) -> None:
    model = folder / "any.safetensors"
    images = smooth_images(5, 8, 9)
    data = lmzip.compress_batch(images, model=model, order="s-curve:flip")
    info = lmzip.read_info(data)
    assert (info.is_archive, info.count, info.height, info.width) == (True, 5, 8, 9)
    assert (info.method, info.model, info.order) == ("network", "any", "s-curve:flip")
    assert info.bpd == 8 * len(data) / images.size
    assert info.model_bpd is not None
    mixed = lmzip.read_info(lmzip.compress_batch([images[0], images[1][:5]], model=model))
    assert (mixed.count, mixed.height, mixed.width, mixed.mode) == (2, None, 9, "RGB")


# ---- Errors --------------------------------------------------------------------------------------

IMAGE = np.zeros((4, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"pixels": IMAGE.astype(np.float32)}, "float32"),
        ({"pixels": IMAGE.astype(np.int8)}, "int8"),
        ({"pixels": IMAGE.astype(np.int64)}, "int64"),
        ({"pixels": IMAGE[0]}, "2"),
        ({"pixels": IMAGE[None]}, "4"),
        ({"pixels": IMAGE[:0]}, r"\(0, 5, 3\)"),
        ({"pixels": np.zeros((4, 5, 5), np.uint8)}, "5 channels"),
        ({"pixels": np.zeros((4, 5, 3), bool)}, "3 channels"),
        ({"pixels": IMAGE, "layout": "WHC"}, "'WHC'"),
        ({"pixels": IMAGE, "layout": "HW"}, "HW"),
        ({"pixels": IMAGE, "model": "nonesuch"}, "'nonesuch'"),
        ({"pixels": IMAGE, "model": "missing.safetensors"}, "missing"),
        ({"pixels": IMAGE, "order": "zigzag"}, "'zigzag'"),
        ({"pixels": IMAGE, "order": "raster:sideways"}, "sideways"),
        ({"pixels": IMAGE, "order": np.arange(19)}, "19 entries"),
        ({"pixels": IMAGE, "order": np.zeros(20, int)}, "entry 0"),
        ({"pixels": IMAGE, "order": np.arange(20) + 1}, "20"),
        ({"pixels": IMAGE, "order": np.arange(20) / 2}, "float64"),
        ({"pixels": IMAGE, "threads": -2}, "-2"),
        ({"pixels": IMAGE, "model": "raster", "order": "hilbert"}, "hilbert"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_errors_name_the_value(arguments: dict[str, Any], named: str, released: Path) -> None:
    with pytest.raises(lmzip.LmzipError, match=named) as caught:
        lmzip.compress(**arguments)
    assert "\n" not in str(caught.value)


def test_options_name_what_they_refuse(released: Path) -> None:
    with pytest.raises(lmzip.InputError, match="'utmost'"):
        lmzip.Options(effort="utmost")
    with pytest.raises(lmzip.InputError, match="'fpga'"):
        lmzip.compress_picture(
            lmzip.Picture(IMAGE, MODES["RGB"]), lmzip.Options(backend="fpga", order="s-curve")
        )


def test_layouts_that_do_not_fit_the_file(folder: Path) -> None:
    data = lmzip.compress(IMAGE)
    with pytest.raises(lmzip.InputError, match="3"):
        lmzip.decompress(data, layout="HW")
    with pytest.raises(lmzip.InputError, match="'NHWC'"):
        lmzip.decompress(data, layout="NHWC")
    with pytest.raises(lmzip.InputError, match="'HWC'"):
        lmzip.compress_batch(IMAGE[None], layout="HWC")
    with pytest.raises(lmzip.InputError, match="axes"):
        lmzip.compress_batch(IMAGE)


def test_a_model_for_other_channels_is_refused(tmp_path: Path) -> None:
    path = write_model(compact_network(channels=1, name="grey"), tmp_path)
    grey = smooth_images(1, 6, 7, 1)[0]
    data = lmzip.compress(grey, model=path)
    assert lmzip.read_info(data).method == "network"
    assert np.array_equal(lmzip.decompress(data, model=path), grey)
    with pytest.raises(lmzip.InputError, match="grey"):
        lmzip.compress(IMAGE, model=path)
    with pytest.raises(lmzip.InputError, match="grey"):
        lmzip.compress_batch(IMAGE[None], model=path)


def test_pictures_must_fit_their_mode() -> None:
    with pytest.raises(lmzip.InputError, match="RGB needs 3 channels"):
        lmzip.Picture(np.zeros((2, 2, 1), np.uint8), MODES["RGB"])
    with pytest.raises(lmzip.InputError, match="at least one pixel"):
        lmzip.Picture(np.zeros((2, 0, 1), np.uint8), MODES["L"])
