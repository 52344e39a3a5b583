"""Version 2 is small and names models by number; version 1 is read, and read only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import oracle, oracle_streams
from support.networks import (
    ANY_ORDER,
    compact_network,
    draw_tuned,
    random_network,
    smooth_images,
    write_model,
)

import lmzip
from lmzip.bit_costs import measure_bits
from lmzip.container.archive_file import read_index
from lmzip.container.binary import Reader, Writer
from lmzip.container.image_file import read_chunks, read_image_header, write_image
from lmzip.container.model_reference import StoredTuning
from lmzip.container.tuned_models import refer_to
from lmzip.container.tuning_bank import tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.container.version_1 import read_stream
from lmzip.network.registry import WEIGHTS, Model, load_model
from lmzip.network.released import PURPOSES, RELEASED
from lmzip.network.tuning import LayerTuning, Tuning, list_layers
from lmzip.order.orders import Order
from lmzip.picture import MODES, Picture

RGB = MODES["RGB"]
MOST = 24  # bytes beyond its symbols that a plain image may take


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    return load_model(write_model(compact_network(orders=ANY_ORDER, name="any"), folder))


def test_released_models_have_numbers() -> None:
    """Which are never changed: a number in this test may only be added."""
    assert RELEASED == {1: "thumb", 2: "photo", 3: "thumb-any", 4: "thumb-large", 5: "photo-large"}
    for number, name in RELEASED.items():
        assert load_model(name).number == number
        reference = refer_to(load_model(name))
        assert (reference.number, len(reference.fingerprint)) == (number, 2)
    assert {path.stem for path in WEIGHTS.glob("*.safetensors")} == set(RELEASED.values())
    assert set(PURPOSES) == set(RELEASED.values())


@pytest.mark.parametrize(("number", "name"), RELEASED.items())
def test_documents_list_every_released_model(number: int, name: str) -> None:
    root = Path(__file__).parents[2]
    assert f"| {number} | {name} |" in (root / "FORMAT.md").read_text()
    assert f"| `{name}` | {number} |" in (root / "docs" / "VERSIONS.md").read_text()
    assert (root / "models" / "weights" / f"{name}.md").is_file()


def test_a_plain_image_has_a_small_header() -> None:
    pixels = smooth_images(1, 32, 32)[0]
    data = lmzip.compress(pixels, model="thumb")
    thumb = load_model("thumb")
    ideal = measure_bits(Picture(pixels, RGB), thumb, Order("raster")).total
    reader = Reader(data)
    (chunk,) = read_chunks(reader, read_image_header(reader))
    # 6 of magic, version and kind, 3 of mode and size, 3 of the model, 2 or 3 of the cost, 1 of the
    # method, 4 of the checksum; and what the coder adds to the cost is less than a word.
    assert len(data) - len(chunk.data) <= 19
    assert len(data) <= ideal / 8 + MOST
    info = lmzip.read_info(data)
    assert info.model_bpd == pytest.approx(ideal / pixels.size, abs=1 / 64 / pixels.size)
    assert (info.model, info.fingerprint) == ("thumb", thumb.fingerprint[:4])
    assert np.array_equal(lmzip.decompress(data), pixels)


def test_a_model_of_another_name_is_not_a_released_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = load_model(write_model(compact_network(name="thumb"), tmp_path))
    assert own.number == 0
    (image,) = smooth_images(1, 6, 7)
    data = lmzip.compress(image, model="thumb")
    with pytest.raises(lmzip.FingerprintError, match="'thumb'"):
        lmzip.decompress(data, model=own.path)
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    with pytest.raises(lmzip.FingerprintError, match="'thumb'"):
        lmzip.decompress(data)


def test_a_model_that_came_later_is_named_by_its_number() -> None:
    (image,) = smooth_images(1, 6, 7)
    data = bytearray(lmzip.compress(image, model="thumb"))
    data[9] = 99
    assert lmzip.read_info(bytes(data)).model == "number 99"
    with pytest.raises(lmzip.FingerprintError, match="'number 99'"):
        lmzip.decompress(bytes(data))


@pytest.mark.parametrize("flags", [0x80, 0x04 | 0x10, 0x04 | 0x20, 0x04 | 0x40])
def test_unknown_flags_are_refused(flags: int) -> None:
    data = bytearray(lmzip.compress(np.zeros((2, 2, 3), np.uint8), model="thumb"))
    data[5] |= flags
    for read in (lmzip.decompress, lmzip.read_info):
        with pytest.raises(lmzip.FormatError, match="flags"):
            read(bytes(data))
    archive = bytearray(lmzip.compress_batch(np.zeros((2, 2, 2, 3), np.uint8)))
    archive[5] |= 4
    with pytest.raises(lmzip.FormatError, match="kind of file 6"):
        lmzip.open_archive(bytes(archive))


def test_streams_of_version_1_are_whole_words() -> None:
    assert read_stream(b"") == b""
    assert read_stream(b"\0\0\0\0\1\0\0\0") == b"\0\0\0\0\1"
    for words in (b"\1", b"\1\2\3\4\5", b"\1\2\3\4\0\0\0\0", bytes(4)):
        with pytest.raises(lmzip.DamagedError):
            read_stream(words)


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 10**9, -(10**9)])
def test_signed_numbers(value: int) -> None:
    writer = Writer()
    writer.signed(value)
    assert Reader(bytes(writer.data)).signed() == value
    assert len(writer.data) == 1 or abs(value) >= 64


# ---- Tunings -------------------------------------------------------------------------------------


def tuned_file(model: Model, tuning: StoredTuning | None, mode: str = "RGB") -> bytes:
    """Return a file as the model codes it, which claims some tuning."""
    picture = Picture(smooth_images(1, 8, 9, MODES[mode].channels)[0], MODES[mode])
    data = lmzip.compress_picture(picture, lmzip.Options(model=str(model.path)))
    reader = Reader(data)
    header = read_image_header(reader)
    chunks = read_chunks(reader, header)
    assert header.coding is not None
    coding = replace(header.coding, model=replace(header.coding.model, tuning=tuning))
    return write_image(replace(header, coding=coding), chunks, 0)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_tuned_images_come_back_by_both_decoders(mode: str, model: Model) -> None:
    picture = Picture(smooth_images(1, 8, 9, MODES[mode].channels)[0], MODES[mode])
    tuned = draw_tuned(model)
    options = lmzip.Options(model=str(model.path), order="s-curve")
    data = lmzip.compress_picture(picture, options, tuned=[tuned])
    plain = lmzip.compress_picture(picture, options)
    assert np.array_equal(lmzip.decompress(data, model=model.path), picture.samples)
    network = oracle_streams.read_model(model.path.read_bytes())
    assert oracle.decode_image(data, [network]) == picture.samples.tolist()
    assert lmzip.read_info(data).tuning == len(tuned.tuning)
    assert lmzip.read_info(plain).tuning is None
    learnt = lmzip.compress_picture(picture, options, tuned=[replace(tuned, plain_size=300)])
    assert len(learnt) == len(data) + 2
    assert lmzip.read_info(learnt).plain_size == 300
    assert np.array_equal(lmzip.decompress(learnt, model=model.path), picture.samples)
    assert oracle.decode_image(learnt, [network]) == picture.samples.tolist()
    region = lmzip.decompress_region(data, 2, 3, 4, 5, model=model.path)
    assert np.array_equal(region, picture.samples[2:6, 3:8])
    choice = lmzip.read_model_and_order(data, model=model.path)
    assert choice is not None
    assert choice.model is tuned


def test_images_of_an_archive_share_a_tuning(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 100)
    sizes = [(6, 7), (6, 7), (12, 13), (12, 13)]
    pictures = [Picture(smooth_images(1, *size, seed=n)[0], RGB) for n, size in enumerate(sizes)]
    options, tuned = lmzip.Options(model=str(model.path)), draw_tuned(model)
    named = [(None, picture) for picture in pictures]
    data = lmzip.pack_archive(named, options, tuned=[tuned])
    assert data.count(tuned.tuning[20:40]) <= 1
    assert lmzip.read_info(data).tuning == len(tuned.tuning)
    with lmzip.open_archive(data, model=model.path) as archive:
        for found, picture in zip(archive, pictures, strict=True):
            assert np.array_equal(found, picture.samples)
    network = oracle_streams.read_model(model.path.read_bytes())
    expected = [picture.samples.tolist() for picture in pictures]
    assert oracle.decode_archive(data, [network]) == expected
    last = read_index(memoryview(data)).chunks[-1]
    alone = data[last.offset : last.offset + last.size]
    with pytest.raises(lmzip.FormatError, match="archive that it was taken from"):
        lmzip.decompress(alone, model=model.path)


def test_hostile_tunings_are_refused_by_name(model: Model, tmp_path: Path) -> None:
    tuned = draw_tuned(model)
    check = bytes.fromhex(tuned.fingerprint)[:4]
    good = tuned.tuning
    layers = len(list_layers(model.network))
    first = model.network.first.bias
    breaking = LayerTuning(bias=np.full(len(first), 1 << 24, np.int64))
    huge = write_tuning(Tuning((breaking, *[LayerTuning()] * (layers - 1))), model.network)
    cases: list[tuple[StoredTuning, type[lmzip.LmzipError], str]] = [
        (StoredTuning(good, b"\0" + check[1:]), lmzip.FingerprintError, "its tuning gives"),
        (StoredTuning(good[:-1], check), lmzip.LmzipError, "."),
        (StoredTuning(good + b"\1", check), lmzip.LmzipError, "."),
        (StoredTuning(b"", check), lmzip.DamagedError, "ends"),
        (StoredTuning(huge, check), lmzip.ModelError, "2\\^24"),
        (StoredTuning(3, check), lmzip.FormatError, "archive"),
    ]
    for tuning, kind, text in cases:
        data = tuned_file(model, tuning)
        lmzip.read_info(data)  # needs no network, and says what is there
        with pytest.raises(kind, match=text):
            lmzip.decompress(data, model=model.path)
    wrong = load_model(write_model(random_network(name="other"), tmp_path))
    with pytest.raises(lmzip.FingerprintError, match="'any'"):
        lmzip.decompress(tuned_file(model, StoredTuning(good, check)), model=wrong.path)


def test_a_wide_tuning_takes_little_memory(model: Model) -> None:
    """Numbers up to 4096 for every weight: a table for each would be gigabytes."""
    layers = []
    for _, layer in list_layers(model.network):
        weight = np.zeros(layer.weight.shape, np.int64)
        weight.flat[0] = 4096
        layers.append(LayerTuning(weight=weight))
    data = write_tuning(Tuning(tuple(layers)), model.network)
    assert tune_model(model, data).tuning == data
