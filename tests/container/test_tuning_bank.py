"""Banks: the tuning that suits a picture is found and named, and nothing hostile is believed."""

from __future__ import annotations

import importlib
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import oracle, oracle_streams, oracle_tunings
from support.networks import compact_network, draw_tuned, smooth_images, write_model

import lmzip
from lmzip.container.bank_choice import FIELD_BYTES
from lmzip.container.model_reference import OfBank
from lmzip.container.tuned_models import refer_to
from lmzip.container.tuning_bank import (
    SUFFIX,
    BankEntry,
    pack_bank,
    read_bank,
    tune_by_bank,
    tune_model,
    unpack_bank,
)
from lmzip.container.tuning_block import write_tuning
from lmzip.native.backends import list_kernels
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.registry import Choice, Model, list_models, load_model
from lmzip.network.tuning import LayerTuning, Tuning, apply_tuning, list_layers
from lmzip.picture import MODES, Picture, Samples
from lmzip.selection import measure_choices

RGB = MODES["RGB"]
GOLDEN = Path(__file__).parents[1] / "golden"


def shift_outputs(network: IntegerNetwork, by: int) -> Tuning:
    """Return a tuning that moves every other output."""
    changes = [LayerTuning() for _ in list_layers(network)]
    bias = np.full(len(network.out.bias), by, np.int64)
    bias[::2] = 0
    changes[-1] = LayerTuning(bias=bias)
    return Tuning(tuple(changes))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a spoilt network with a bank: tuning 3 makes it worse, tuning 7 mends it."""
    good = compact_network(name="spoilt")
    spoilt = apply_tuning(good, shift_outputs(good, 60))
    model = load_model(write_model(spoilt, tmp_path_factory.mktemp("spoilt")))
    entries = []
    for number, by in ((3, 60), (7, -60)):
        data = write_tuning(shift_outputs(spoilt, by), spoilt)
        check = bytes.fromhex(tune_model(model, data).fingerprint)[:4]
        entries.append(BankEntry(number, f"moved by {by}", data, check))
    model.path.with_suffix(SUFFIX).write_bytes(pack_bank(entries, model))
    return model


@pytest.fixture(scope="module")
def network(model: Model) -> oracle_streams.Network:
    network = oracle_streams.read_model(model.path.read_bytes())
    return oracle_tunings.with_bank(network, model.path.with_suffix(SUFFIX).read_bytes())


@pytest.mark.parametrize("size", [(16, 18), (70, 66)])  # tried whole, and by a sample
def test_a_picture_gets_the_tuning_that_suits_it(
    size: tuple[int, int], model: Model, network: oracle_streams.Network
) -> None:
    picture = Picture(smooth_images(1, *size)[0], RGB)
    options = lmzip.Options(model=str(model.path))
    data = lmzip.compress_picture(picture, options)
    plain = lmzip.compress_picture(picture, replace(options, effort="fast"))
    assert len(data) < len(plain)
    info = lmzip.read_info(data)
    assert (info.bank_tuning, info.tuning) == (7, None)
    assert lmzip.read_info(plain).bank_tuning is None
    assert np.array_equal(lmzip.decompress(data, model=model.path), picture.samples)
    region = lmzip.decompress_region(data, 3, 2, 5, 7, model=model.path)
    assert np.array_equal(region, picture.samples[3:8, 2:9])
    if size == (16, 18):  # the oracle is slow
        assert oracle.decode_image(data, [network]) == picture.samples.tolist()


def test_of_many_tunings_only_the_best_are_looked_at_closely(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.bank_choice.FINALISTS", 1)
    looks = []

    def measure(crops: Samples, choices: Sequence[Choice], *others: Any) -> list[int]:
        looks.append((len(crops), [choice.model.bank_number for choice in choices]))
        return measure_choices(crops, choices, *others)

    monkeypatch.setattr("lmzip.container.bank_choice.measure_choices", measure)
    data = lmzip.compress(smooth_images(1, 140, 132)[0], model=model.path)
    assert lmzip.read_info(data).bank_tuning == 7
    assert looks == [(4, [0, 3, 7]), (16, [0, 7])]


def test_images_of_an_archive_get_the_tuning_that_suits_them(
    model: Model, network: oracle_streams.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 150)
    sizes = [(8, 9), (8, 9), (12, 13)]  # a batch and an image file
    images = [smooth_images(1, *size, seed=n)[0] for n, size in enumerate(sizes)]
    data = lmzip.compress_batch(images, model=model.path)
    plain = lmzip.compress_batch(images, model=model.path, effort="fast")
    assert len(data) < len(plain)
    assert lmzip.read_info(data).bank_tuning == 7
    with lmzip.open_archive(data, model=model.path) as archive:
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))
    assert oracle.decode_archive(data, [network]) == [image.tolist() for image in images]


def test_what_no_tuning_suits_is_coded_as_before(model: Model, tmp_path: Path) -> None:
    """With a bank that only makes things worse, not a byte changes."""
    path = write_model(model.network, tmp_path)
    images = [smooth_images(1, *size)[0] for size in ((16, 18), (70, 66))]
    before = [lmzip.compress(image, model=path) for image in images]
    worse = [entry for entry in read_bank(model) if entry.number == 3]
    path.with_suffix(SUFFIX).write_bytes(pack_bank(worse, model))
    read_bank.cache_clear()
    assert read_bank(load_model(path))
    assert [lmzip.compress(image, model=path) for image in images] == before


def test_no_small_file_is_larger_for_a_tuning(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a sample speak for it: what follows may be coded classically, or scaled otherwise."""
    order = lmzip.Options(model=str(model.path))
    picture = Picture(smooth_images(1, 20, 30)[0], RGB)
    best = lmzip.compress_picture(picture, order)
    worse = tune_by_bank(model, 3)
    monkeypatch.setattr(
        "lmzip.container.image_writer.choose_tuning",
        lambda choice, *_: Choice(worse, choice.order),
    )
    plain = lmzip.compress_picture(picture, order)
    assert lmzip.read_info(plain).bank_tuning is None
    assert len(plain) >= len(best)


def test_a_tuning_of_the_bank_takes_five_bytes(model: Model) -> None:
    picture = Picture(smooth_images(1, 16, 18)[0], RGB)
    data = lmzip.compress_picture(picture, lmzip.Options(model=str(model.path)))
    own = lmzip.compress_picture(
        picture, lmzip.Options(model=str(model.path)), tuned=[tune_by_bank(model, 7)]
    )
    assert own == data
    brought = tune_model(model, tune_by_bank(model, 7).tuning)
    longer = lmzip.compress_picture(picture, lmzip.Options(model=str(model.path)), tuned=[brought])
    assert len(longer) - len(data) == len(brought.tuning) + 1
    assert FIELD_BYTES == 5


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_tuned_files_are_the_same_whatever_computes(
    mode: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels, numpy and torch, one thread and several: the same bytes, and each reads them."""
    monkeypatch.setattr("lmzip.container.tiles.TILE", (9, 9))  # several tiles
    picture = Picture(smooth_images(1, 20, 23, MODES[mode].channels)[0], MODES[mode])
    drawn = draw_tuned(model)
    kernels = [kernel.name for kernel in list_kernels()]
    for tuned in (drawn, tune_by_bank(model, 7)):
        files = {
            lmzip.compress_picture(
                picture,
                lmzip.Options(model=str(model.path), backend=backend, threads=threads),
                tuned=[tuned],
            )
            for backend in ("numpy", "torch", *kernels)
            for threads in (1, 2)
        }
        (data,) = files
        for backend in ("numpy", *kernels):
            monkeypatch.setenv("LMZIP_KERNEL", backend)
            for threads in (1, 2):
                decoded = lmzip.decompress(data, model=model.path, threads=threads)
                assert np.array_equal(decoded, picture.samples)
        monkeypatch.delenv("LMZIP_KERNEL")


def change_number(data: bytes, model: Model, number: int) -> bytes:
    """Return a file with another number of a tuning, and the checksum that goes with it."""
    wanted = bytes([7]) + bytes.fromhex(tune_by_bank(model, 7).fingerprint)[:4]
    assert data.count(wanted) == 1
    pixels = lmzip.decompress(data, model=model.path)
    changed = data[:-4].replace(wanted, bytes([number]) + wanted[1:])
    return changed + zlib.crc32(pixels.tobytes() + changed).to_bytes(4, "little")


def test_files_that_name_another_tuning_are_refused(model: Model) -> None:
    data = lmzip.compress(smooth_images(1, 16, 18)[0], model=model.path)
    assert change_number(data, model, 7) == data
    for number, error, text in (
        (5, lmzip.ModelError, "'spoilt' has no tuning number 5"),
        (3, lmzip.FingerprintError, "its tuning gives"),
        (252, lmzip.FormatError, "an unknown kind of tuning, 252"),
    ):
        with pytest.raises(error, match=text):
            lmzip.decompress(change_number(data, model, number), model=model.path)


def test_hostile_banks_are_refused_by_name(model: Model, tmp_path: Path) -> None:
    entries = read_bank(model)
    whole = pack_bank(entries, model)
    assert unpack_bank(whole, model) == entries

    def sealed(data: bytes) -> bytes:
        return data + zlib.crc32(data).to_bytes(4, "little")

    def numbered(*numbers: int) -> bytes:
        renamed = [replace(e, number=n) for e, n in zip(entries, numbers, strict=True)]
        return pack_bank(renamed, model)

    cases: list[tuple[bytes, str]] = [
        (b"PK" + whole[2:], "not a bank"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "checksum"),
        (sealed(whole[:5] + bytes(8) + whole[13:-4]), "another model than 'spoilt'"),
        (sealed(whole[:-4] + b"x"), "1 bytes follow"),
        (sealed(whole[:-9]), "ends|cut|byte"),
        (numbered(0, 7), "tuning number 0"),
        (numbered(7, 7), "tuning number 7"),
        (numbered(3, 251), "tuning number 251"),
    ]
    path = write_model(model.network, tmp_path)
    for data, text in cases:
        path.with_suffix(SUFFIX).write_bytes(data)
        read_bank.cache_clear()
        with pytest.raises(lmzip.ModelError, match=f"spoilt.tunings: .*({text})"):
            read_bank(load_model(path))
    path.with_suffix(SUFFIX).write_bytes(
        pack_bank([replace(entries[0], check=b"none")], load_model(path))
    )
    read_bank.cache_clear()
    with pytest.raises(lmzip.ModelError, match="tuning 3 does not give the network"):
        tune_by_bank(load_model(path), 3)


def test_no_flipped_bit_of_a_bank_goes_unnoticed(model: Model) -> None:
    whole = pack_bank(read_bank(model), model)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(lmzip.LmzipError):
            unpack_bank(bytes(damaged), model)


@pytest.mark.parametrize("name", [entry.name for entry in list_models()])
def test_the_banks_that_are_shipped_fit_their_models(name: str) -> None:
    model = load_model(name)
    for entry in read_bank(model):
        assert tune_by_bank(model, entry.number).base is model


# ---- Golden files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["image", "archive"])
def test_golden_files_name_tunings_of_a_bank(name: str, tmp_path: Path) -> None:
    make = importlib.import_module("golden.make")
    path = shutil.copy(make.MODEL, tmp_path)
    bank = shutil.copy(GOLDEN / "banks" / "golden.tunings", tmp_path)
    model = load_model(path)
    tuned = tune_by_bank(model, 2)
    data = (GOLDEN / "banks" / f"{name}.lmz").read_bytes()
    code: Callable[[Model], bytes] = dict(make.make_bank_files())[name]
    assert code(tuned) == data
    assert lmzip.read_info(data).bank_tuning == 2
    network = oracle_streams.read_model(Path(path).read_bytes())
    network = oracle_tunings.with_bank(network, Path(bank).read_bytes())
    if name == "image":
        pixels = make.draw_picture("RGB").samples
        assert np.array_equal(lmzip.decompress(data, model=path), pixels)
        assert oracle.decode_image(data, [network]) == pixels.tolist()
        reference = refer_to(tuned).tuning
        assert reference is not None
        assert reference.content == OfBank(2)
    else:
        with lmzip.open_archive(data, model=path) as archive:
            pictures = archive.pictures(range(len(archive)))
        expected = [picture.samples.astype(int).tolist() for picture in pictures]
        assert oracle.decode_archive(data, [network]) == expected
