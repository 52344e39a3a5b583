"""Pillow opens, decodes when asked, and saves .lmz files."""

import io

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

import lmzip
import lmzip.pillow_plugin
from lmzip.picture import MODES, Picture


def make_image(mode: str) -> Image.Image:
    state = np.random.default_rng(3)
    if mode == "I;16":
        return Image.fromarray(state.integers(0, 65536, (11, 17), np.uint16))
    image = Image.fromarray(state.integers(0, 256, (11, 17, 4), np.uint8))
    return image if mode == "RGBA" else image.convert("RGB").convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "P", "CMYK", "I;16"])
def test_saves_and_opens_every_mode(mode, tmp_path):
    image = make_image(mode)
    image.save(tmp_path / "x.lmz")
    with Image.open(tmp_path / "x.lmz") as opened:
        assert (opened.format, opened.mode, opened.size) == ("LMZ", mode, (17, 11))
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(image))
        assert opened.convert("RGB").tobytes() == image.convert("RGB").tobytes()


def test_opening_decodes_nothing(monkeypatch):
    file = io.BytesIO()
    make_image("RGB").save(file, "LMZ")
    calls = []

    def count(data):
        calls.append(len(data))
        return lmzip.decompress_picture(data)

    monkeypatch.setattr(lmzip.pillow_plugin, "decompress_picture", count)
    with Image.open(file) as image:
        assert (image.size, image.mode, calls) == ((17, 11), "RGB", [])
        image.load()
        image.load()
    assert len(calls) == 1


def test_a_header_longer_than_the_first_read(tmp_path):
    image = make_image("L")
    image.save(tmp_path / "x.lmz", icc_profile=bytes(range(256)) * 100)
    with Image.open(tmp_path / "x.lmz") as opened:
        assert opened.info["icc_profile"] == bytes(range(256)) * 100


def test_metadata_and_transparency_travel(tmp_path):
    image = make_image("P")
    exif = Image.Exif()
    exif[271] = "Camera Works"
    image.save(tmp_path / "x.lmz", exif=exif, dpi=(300, 300), xmp=b"<x/>", transparency=3)
    with Image.open(tmp_path / "x.lmz") as opened:
        assert opened.getexif()[271] == "Camera Works"
        assert round(opened.info["dpi"][0]) == 300
        assert opened.info["xmp"] == b"<x/>"
        assert np.asarray(opened.convert("RGBA"))[0, 0, 3] in (0, 255)
        alpha = np.asarray(opened.convert("RGBA"))[:, :, 3]
        np.testing.assert_array_equal(alpha == 0, np.asarray(image) == 3)


def test_deep_colour_opens_as_8_bits():
    samples = np.random.default_rng(0).integers(0, 65536, (5, 6, 3)).astype(np.uint16)
    data = lmzip.compress_picture(Picture(samples, MODES["RGB16"]))
    with Image.open(io.BytesIO(data)) as image:
        np.testing.assert_array_equal(np.asarray(image), samples >> 8)


def test_damage_is_an_os_error(tmp_path):
    file = io.BytesIO()
    make_image("RGB").save(file, "LMZ")
    data = bytearray(file.getvalue())
    data[-10] ^= 1
    with Image.open(io.BytesIO(data)) as image, pytest.raises(OSError, match="cannot decode"):
        image.load()


def test_what_cannot_be_saved_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match=r"cannot write as lmz: .*mode F"):
        Image.new("F", (3, 3)).save(tmp_path / "x.lmz")
    assert not (tmp_path / "x.lmz").exists()


def test_archives_are_not_taken_for_images():
    data = lmzip.compress_batch(np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(data))
