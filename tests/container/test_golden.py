"""Golden files decode for ever, by both decoders, and are coded today as they were then."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from support import oracle, oracle_frames, oracle_streams
from support.animations import show

import lmzip
from lmzip.container.binary import Reader
from lmzip.container.image_file import read_image_header
from lmzip.container.tuning_bank import tune_model
from lmzip.formats import read_frames
from lmzip.network.adaptation import BY_ERRORS, BY_FEATURES
from lmzip.network.registry import load_model
from lmzip.picture import MODES, Picture, Samples

FOLDER = Path(__file__).parents[1] / "golden"
MODEL = FOLDER / "golden.safetensors"
FINGERPRINT = "9c411b0a25914a33db78fee4253bb6a63f63f9afd16f832a9ff6d6b70f262b0a"
CURRENT = "v2/"  # the files of the version that is written today
EXPECTED: dict[str, Any] = {
    f"{folder}{name}": entry
    for folder in ("", CURRENT)
    for name, entry in json.loads((FOLDER / folder / "checksums.json").read_text()).items()
}
ARCHIVES = sorted(name for name in EXPECTED if "archive" in name or "frames" in name)
FRAMES = sorted(name for name in EXPECTED if "frames" in name)
IMAGES = sorted(name for name in EXPECTED if name not in ARCHIVES)


@pytest.fixture(scope="module")
def network() -> oracle_streams.Network:
    return oracle_streams.read_model(MODEL.read_bytes())


def check_picture(picture: Picture, expected: dict[str, Any]) -> None:
    """Compare a picture with what checksums.json says of it."""
    mode = MODES[expected["mode"]]
    assert picture.mode == mode
    assert picture.samples.dtype == mode.dtype
    assert list(picture.samples.shape) == expected["shape"]
    assert hash_of_samples(picture.samples) == expected["sha256"]
    metadata = {tag: block.hex() for tag, block in picture.metadata.items()}
    assert metadata == expected["metadata"]


def hash_of_samples(samples: Samples) -> str:
    little = samples.astype(samples.dtype.newbyteorder("<"))
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()


def test_the_files_are_all_there_and_untouched() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.lmz")}
    assert {name for name in files if not name.startswith("banks/")} == set(EXPECTED)
    for name, expected in EXPECTED.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == expected["sha256"], name
        assert lmzip.read_info(FOLDER / name).version == (2 if name.startswith(CURRENT) else 1)
    assert lmzip.read_info(FOLDER / "rgb.lmz").fingerprint == FINGERPRINT[:16]
    assert lmzip.read_info(FOLDER / "v2/rgb.lmz").fingerprint == FINGERPRINT[:16]
    assert lmzip.read_info(FOLDER / "v2/numbered.lmz").fingerprint == FINGERPRINT[:4]


def test_the_model_has_its_fingerprint(network: oracle_streams.Network) -> None:
    assert network.fingerprint.hex() == FINGERPRINT


@pytest.mark.parametrize("name", IMAGES)
def test_images_decode(name: str, network: oracle_streams.Network) -> None:
    data, (expected,) = (FOLDER / name).read_bytes(), EXPECTED[name]["images"]
    picture = lmzip.decompress_picture(data, model=MODEL)
    check_picture(picture, expected)
    assert oracle.decode_image(data, [network]) == picture.samples.astype(int).tolist()


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_decode(name: str, network: oracle_streams.Network) -> None:
    data, expected = (FOLDER / name).read_bytes(), EXPECTED[name]["images"]
    with lmzip.open_archive(data, model=MODEL) as archive:
        if name not in FRAMES:
            assert archive.names == [f"folder/{number}.png" for number in range(len(expected))]
        pictures = [archive.picture(number) for number in range(len(archive))]
        metadata = [dict(archive.metadata(number)) for number in range(len(archive))]
    for picture, wanted in zip(pictures, expected, strict=True):
        check_picture(picture, wanted)
    pixels = [picture.samples.astype(int).tolist() for picture in pictures]
    assert oracle.read_archive(data, [network]) == list(zip(pixels, metadata, strict=True))


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_put_together(name: str, network: oracle_streams.Network) -> None:
    """By both decoders: a viewer shows the same of their files, and what it always did."""
    script = importlib.import_module("golden.make")
    data, expected = (FOLDER / name).read_bytes(), EXPECTED[name]
    with lmzip.open_archive(data, model=MODEL) as archive:
        files = list(script.restore_frames(archive.pictures(range(len(archive)))))
    theirs = oracle_frames.restore_files(oracle.read_archive(data, [network]))
    assert len(files) == len(theirs) == len(expected["shown"])
    for ours, other, shown in zip(files, theirs, expected["shown"], strict=True):
        assert show(ours) == show(other)
        assert list(script.describe_shown(ours)) == shown
        if ours[:2] == b"II":
            assert read_pages(ours) == read_pages(other)
        # What no viewer shows: texts, what follows the end, chunks that nobody knows.
        assert read_frames(ours)[0].metadata == read_frames(other)[0].metadata


def read_pages(data: bytes) -> list[tuple[Any, ...]]:
    """Return the samples of a document's pages, what kind of page each is, and what it says."""
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        pages = [page for page in file.pages if isinstance(page, tifffile.TiffPage)]
        assert len(pages) == len(file.pages)
        return [
            (page.asarray().tolist(), page.tags[254].value, page.tags[270].value) for page in pages
        ]


def test_frames_have_their_names() -> None:
    with lmzip.open_archive(FOLDER / CURRENT / "frames-archive.lmz", model=MODEL) as archive:
        assert archive.names == [
            "folder/a.tiff", "folder/a.tiff#2", "folder/a.tiff#3", "folder/b.png",
            "folder/c.gif", "folder/c.gif#2", "folder/c.gif#3",
        ]  # fmt: skip
    with lmzip.open_archive(FOLDER / CURRENT / "frames-webp.lmz", model=MODEL) as archive:
        assert archive.names is None


def mode_of(name: str) -> str:
    return str(lmzip.read_info(FOLDER / name).mode)


def is_by_network(name: str) -> bool:
    return name.startswith(CURRENT) and lmzip.read_info(FOLDER / name).method == "network"


@pytest.mark.parametrize("name", [name for name in IMAGES if is_by_network(name)])
def test_coding_has_not_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of what is coded would be another version of the format."""
    data = (FOLDER / name).read_bytes()
    picture = lmzip.decompress_picture(data, model=MODEL)
    header = read_image_header(Reader(data))
    assert header.coding is not None
    reference = header.coding.model
    if header.grid != (1, 1):
        monkeypatch.setattr("lmzip.container.tiles.TILE", (9, 9))
    if lmzip.read_info(data).adaptive:
        monkeypatch.setattr("lmzip.container.tile_coding.LARGE", 1)
        manner = BY_ERRORS if "aware" in name else BY_FEATURES
        monkeypatch.setattr("lmzip.container.tile_coding.choose_manner", lambda _: manner)
    if reference.number:
        monkeypatch.setattr("lmzip.network.registry.WEIGHTS", FOLDER)
        monkeypatch.setattr("lmzip.network.registry.RELEASED", {reference.number: "golden"})
    tuned = []
    if reference.tuning is not None:
        assert isinstance(reference.tuning.content, bytes)
        tuned = [tune_model(load_model(MODEL), reference.tuning.content)]
    # Which scaling is chosen is not part of the format.
    scalings = header.coding.scalings
    monkeypatch.setattr("lmzip.container.image_writer.choose_scalings", lambda *_: scalings)
    options = lmzip.Options(model=str(MODEL), order=header.coding.order)
    assert lmzip.compress_picture(picture, options, tuned=tuned) == data


@pytest.mark.parametrize("name", [name for name in IMAGES if f"{CURRENT}{name}" in EXPECTED])
def test_versions_hold_the_same(name: str) -> None:
    """What a file of version 1 says, apart from its size, that of version 2 says as well."""
    if name == "flat-alpha.lmz":
        pytest.skip("its parts are coded by other methods")
    assert EXPECTED[f"{CURRENT}{name}"]["images"] == EXPECTED[name]["images"]
    old, new = lmzip.read_info(FOLDER / name), lmzip.read_info(FOLDER / CURRENT / name)
    for field in ("method", "model", "order", "tiles", "metadata"):
        assert getattr(old, field) == getattr(new, field)
    assert new.size < old.size
    assert old.model_bpd == pytest.approx(new.model_bpd, abs=1 / 64 / old.samples)


def test_every_way_of_coding_is_among_them() -> None:
    methods = {lmzip.read_info(FOLDER / name).method for name in IMAGES}
    assert methods == {"network", "webp", "png", "deflate", "jpeg2000", "raw", "mixed"}
    orders = {lmzip.read_info(FOLDER / name).order for name in IMAGES}
    assert orders >= {"raster", "raster:transpose-rotate", "s-curve", "hilbert", "custom"}
    deep = [name for name in IMAGES if is_by_network(name) and "16" in mode_of(name)]
    assert {mode_of(name) for name in deep} == {"L16", "LA16", "RGB16", "RGBA16"}
    assert lmzip.read_info(FOLDER / "v2/tuned.lmz").tuning
    adaptive = {name for name in IMAGES if lmzip.read_info(FOLDER / name).adaptive}
    assert adaptive == {name for name in IMAGES if name.startswith(("v2/adaptive", "v2/aware"))}
    assert lmzip.read_info(FOLDER / "v2/tuned-archive.lmz").tuning
    modes = {image["mode"] for entry in EXPECTED.values() for image in entry["images"]}
    assert modes >= {"1", "L", "LA", "RGB", "RGBA", "P", "CMYK", "L16", "LA16", "RGB16", "RGBA16"}


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith(CURRENT)])
def test_the_script_that_made_them_still_runs(name: str) -> None:
    """Its files hold the same pictures; zlib and libwebp of other versions write other bytes."""
    script = importlib.import_module("golden.make")
    made = dict(script.make_files())[name.removeprefix(CURRENT).removesuffix(".lmz")]()
    described = script.describe(made)
    assert described["images"] == EXPECTED[name]["images"]
    assert described.get("shown") == EXPECTED[name].get("shown")
    if EXPECTED[name]["sha256"] != hashlib.sha256(made).hexdigest():
        assert lmzip.read_info(made).method != "network"
