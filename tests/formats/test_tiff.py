"""TIFF files that hold more than a picture can: kept exactly, or refused by name."""

import io

import numpy as np
import pytest
import tifffile
from PIL import Image

from lmzip.errors import InputError
from lmzip.formats.frames import read_frames
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import write_picture


def write_tiff(values, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, values, **options)
    return file.getvalue()


def make_samples(dtype, *shape):
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def of_channels(count, dtype="u1", **options):
    return write_tiff(make_samples(dtype, 9, 8, count), **options)


def of_palette(entries):
    return write_tiff(make_samples("u1", 9, 8), photometric="palette", colormap=entries)


# The entry of a little-endian directory: tag 259, a short, one of them, and its value 1.
_UNCOMPRESSED = b"\x03\x01\3\0\1\0\0\0\1\0"
REFUSED = {
    "RGB and infrared": (
        lambda: of_channels(4, photometric="rgb", extrasamples=["unspecified"]),
        "4 samples a pixel, of which only 3 could be kept",
    ),
    "RGB and two more": (
        lambda: of_channels(5, photometric="rgb", extrasamples=["unspecified"] * 2),
        "5 samples a pixel, of which only 3 could be kept",
    ),
    "RGBA and one more": (
        lambda: of_channels(5, photometric="rgb", extrasamples=["unassalpha", "unspecified"]),
        "5 samples a pixel, of which only 4 could be kept",
    ),
    "CMYK and one more": (
        lambda: of_channels(5, photometric="separated", extrasamples=["unspecified"]),
        "5 samples a pixel, of which only 4 could be kept",
    ),
    "16-bit RGB and infrared": (
        lambda: of_channels(4, "u2", photometric="rgb", extrasamples=["unspecified"]),
        "4 samples a pixel, of which only 3 could be kept",
    ),
    "grey and one more": (
        lambda: of_channels(2, photometric="minisblack", extrasamples=["unspecified"]),
        "2 samples a pixel, of which only 1 could be kept",
    ),
    "many bands": (
        lambda: of_channels(7, photometric="minisblack", planarconfig="contig"),
        "TIFF layout not supported: 7 samples a pixel of 8 bits, grey",
    ),
    "RGB and infrared in planes": (
        lambda: write_tiff(
            make_samples("u1", 4, 9, 8), photometric="rgb", planarconfig="separate",
            extrasamples=["unspecified"],
        ),
        "TIFF layout not supported: 4 samples a pixel of 8 bits, RGB, in planes",
    ),
    "16-bit planes": (
        lambda: write_tiff(
            make_samples("u2", 3, 9, 8), photometric="rgb", planarconfig="separate"
        ),
        "16-bit samples in separate planes are not supported",
    ),
    "16-bit CMYK": (
        lambda: of_channels(4, "u2", photometric="separated"),
        "TIFF layout not supported: 4 samples a pixel of 16 bits, CMYK",
    ),
    "10 bits": (
        lambda: write_tiff(make_samples("u2", 9, 8) >> 6, bitspersample=10),
        "TIFF layout not supported: 1 sample a pixel of 10 bits, grey",
    ),
    "32 bits": (
        lambda: write_tiff(make_samples("u4", 9, 8)),
        "samples of 32 bits are not supported",
    ),
    "signed 8 bits": (
        lambda: write_tiff(make_samples("i1", 9, 8)),
        "signed samples of 8 bits are not supported",
    ),
    "signed 16-bit colour": (
        lambda: of_channels(3, "i2", photometric="rgb"),
        "signed samples of 16 bits are not supported",
    ),
    "float": (
        lambda: write_tiff(np.zeros((9, 8), np.float32)),
        "float samples of 32 bits are not supported",
    ),
    "float of 64 bits": (
        lambda: write_tiff(np.zeros((9, 8), np.float64)),
        "float samples of 64 bits are not supported",
    ),
    "LAB": (
        lambda: of_channels(3, photometric="cielab"),
        "TIFF files of CIE LAB are not supported",
    ),
    "YCbCr": (
        lambda: of_channels(3, photometric="ycbcr"),
        "TIFF files of YCbCr are not supported",
    ),
    "deflated YCbCr": (
        lambda: of_channels(3, photometric="ycbcr", compression="zlib"),
        "TIFF files of YCbCr are not supported",
    ),
    "premultiplied": (
        lambda: of_channels(4, photometric="rgb", extrasamples=["assocalpha"]),
        "premultiplied alpha cannot be kept exactly in other formats",
    ),
    "volume": (
        lambda: write_tiff(make_samples("u1", 5, 16, 16), volumetric=True, tile=(16, 16, 16)),
        "volumes are not supported, and this one has 5 slices",
    ),
    "16-bit palette": (
        lambda: of_palette(np.full((3, 256), 12345, np.uint16)),
        "palettes of 16-bit colours are not supported (an entry is 12345)",
    ),
    "8-bit palette in 16 bits": (
        lambda: of_palette(np.full((3, 256), 200, np.uint16)),
        "palettes of 16-bit colours are not supported (an entry is 200)",
    ),
    "unknown compression": (
        lambda: of_channels(3, photometric="rgb").replace(
            _UNCOMPRESSED, _UNCOMPRESSED[:-2] + (50002).to_bytes(2, "little")
        ),
        "TIFF compression 50002 is not supported",
    ),
    "letters for a number": (
        lambda: of_channels(3, photometric="rgb").replace(
            _UNCOMPRESSED, _UNCOMPRESSED[:2] + b"\2\0\1\0\0\0\n\0"
        ),
        "damaged TIFF file (tag 259 is not an integer)",
    ),
    "big-endian BigTIFF": (
        lambda: write_tiff(make_samples("u1", 9, 8), bigtiff=True, byteorder=">"),
        "big-endian BigTIFF files are not supported",
    ),
    "cut tags": (
        lambda: of_channels(3, photometric="rgb")[:20],
        "damaged TIFF file (its tags cannot be read)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_kept_is_named(what):
    make, reason = REFUSED[what]
    with pytest.raises(InputError) as caught:
        read_picture(make())
    assert str(caught.value) == reason


def test_a_tag_of_the_wrong_type_is_damage():
    make = (271, 12, 1, 0.5, True)  # a name, as a floating-point number
    with pytest.raises(InputError, match="damaged TIFF file"):
        read_picture(write_tiff(make_samples("u1", 9, 8), extratags=[make]))


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_grey_that_counts_from_white_is_turned_round(dtype, compression):
    samples = make_samples(dtype, 9, 8)
    data = write_tiff(samples, photometric="miniswhite", compression=compression)
    np.testing.assert_array_equal(read_picture(data).picture.samples[:, :, 0], ~samples)


def test_planes_of_bytes_are_put_together():
    planes = make_samples("u1", 3, 9, 8)
    data = write_tiff(planes, photometric="rgb", planarconfig="separate")
    np.testing.assert_array_equal(read_picture(data).picture.samples, planes.transpose(1, 2, 0))


@pytest.mark.parametrize("factor", [257, 256])
def test_palettes_of_8_bit_colours_are_kept(factor):
    colours = make_samples("u1", 3, 256)
    picture = read_picture(of_palette(colours.astype(np.uint16) * factor)).picture
    assert picture.metadata["PLTE"] == colours.T.tobytes()


def test_pixels_of_jpeg_in_tiff_are_read():
    file = io.BytesIO()
    Image.new("RGB", (16, 16), "teal").save(file, "TIFF", compression="jpeg")
    assert read_picture(file.getvalue()).picture.mode.name == "RGB"


def test_images_attached_to_the_first_are_counted_and_cannot_be_kept():
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        writer.write(make_samples("u1", 9, 8), subifds=2)
        writer.write(make_samples("u1", 5, 4))
        writer.write(make_samples("u1", 3, 2))
    reading = read_picture(file.getvalue())
    assert not reading.complete
    assert reading.frames == 3
    with pytest.raises(InputError, match="attached to a page cannot be kept"):
        read_frames(file.getvalue())


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tiff"])
def test_exif_of_a_big_tiff_becomes_classic(suffix):
    exif = Image.Exif()
    exif[271] = "Camera Works"  # make
    exif.get_ifd(0x8769)[33434] = 0.01  # exposure time
    file = io.BytesIO()
    Image.new("RGB", (8, 9)).save(file, "TIFF", big_tiff=True, exif=exif.tobytes())
    assert file.getvalue().startswith(b"II+\0")
    picture = read_picture(file.getvalue()).picture
    assert picture.metadata["EXIF"].startswith(b"II*\0")
    with Image.open(io.BytesIO(write_picture(picture, suffix)[0])) as image:
        again = image.getexif()
        assert again[271] == "Camera Works"
        assert float(again.get_ifd(0x8769)[33434]) == 0.01


@pytest.mark.parametrize("shape", [(3, 2), (1, 1), (1.5, 1)])
def test_the_shape_of_pixels_is_kept_where_there_is_no_unit(shape):
    file = io.BytesIO()
    Image.new("RGB", (5, 4)).save(file, "TIFF", tiffinfo={282: shape[0], 283: shape[1], 296: 1})
    picture = read_picture(file.getvalue()).picture
    with tifffile.TiffFile(io.BytesIO(write_picture(picture, ".tiff")[0])) as image:
        tags = image.pages[0].aspage().tags
        assert tags[296].value == 1
        (across, across_unit), (down, down_unit) = tags[282].value, tags[283].value
        assert (across / across_unit) / (down / down_unit) == shape[0] / shape[1]
