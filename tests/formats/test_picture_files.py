"""Image files in and out: raw samples, modes and metadata, checked with other people's decoders."""

import io
import os
import struct
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from PIL import Image, PngImagePlugin

from lmzip.errors import DamagedError, InputError
from lmzip.formats.metadata import ESSENTIAL, file_times, split_chunks, strip_metadata, time_block
from lmzip.formats.png import GREY, RGB, Png, write_png
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import WRITABLE_SUFFIXES, default_suffix, to_true_colour, write_picture
from lmzip.picture import MODES, Picture, Samples

PALETTE = bytes(np.random.default_rng(5).integers(0, 256, 3 * 200, dtype=np.uint8))
ICC = b"a profile " * 20
XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'>caf\xc3\xa9</x:xmpmeta>"


def make_exif() -> bytes:
    exif = Image.Exif()
    exif[271] = "Camera Works"  # make
    exif[274] = 6  # orientation
    exif.get_ifd(0x8769)[33434] = 0.01  # exposure time
    return exif.tobytes().removeprefix(b"Exif\0\0")


def make_picture(name: str, height: int = 13, width: int = 19, **metadata: bytes) -> Picture:
    mode = MODES[name]
    state = np.random.default_rng(7)
    shape = (height, width, mode.channels)
    if name == "P":
        return Picture(state.integers(0, 200, shape, np.uint8), mode, {"PLTE": PALETTE, **metadata})
    top = 2 if name == "1" else 1 << mode.bits
    samples: Samples = state.integers(0, top, shape).astype(mode.dtype)
    if name in ("RGBA", "LA", "RGBA16", "LA16"):
        samples[::2, :, -1] = 0  # colours under transparent pixels are there to be kept
    return Picture(samples, mode, metadata)


def assert_same(left: Picture, right: Picture) -> None:
    assert left.mode == right.mode
    np.testing.assert_array_equal(left.samples, right.samples)


# Formats that hold a mode as it is.
FAITHFUL = [
    *((name, ".png") for name in MODES if name != "CMYK"),
    *((name, ".tiff") for name in MODES if name != "LA16"),  # Pillow cannot read that one
    *((name, ".bmp") for name in ("1", "L", "P", "RGB")),
    *((name, ".pnm") for name in ("1", "L", "L16", "RGB", "RGB16")),
    *((name, ending) for name in ("RGB", "RGBA") for ending in (".webp", ".qoi")),
]


@pytest.mark.parametrize(("name", "suffix"), FAITHFUL)
@pytest.mark.parametrize(("height", "width"), [(13, 19), (1, 1), (2, 40)])
def test_samples_and_mode_come_back(name, suffix, height, width):
    picture = make_picture(name, height, width)
    data, remarks = write_picture(picture, suffix)
    reading = read_picture(data)
    assert remarks == reading.warnings == ()
    assert_same(reading.picture, picture)
    if name == "P":
        assert reading.picture.metadata["PLTE"][: len(PALETTE)] == PALETTE


@pytest.mark.parametrize("name", [name for name in MODES if name not in ("1", "P")])
def test_tiff_is_what_another_reader_reads(name):
    picture = make_picture(name, ICCP=ICC)
    values = tifffile.imread(io.BytesIO(write_picture(picture, ".tiff")[0]))
    np.testing.assert_array_equal(values.reshape(picture.samples.shape), picture.samples)


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".webp", ".bmp", ".ppm", ".qoi"])
def test_pillow_sees_the_colours_of_a_palette(suffix):
    picture = make_picture("P")
    image = Image.open(io.BytesIO(write_picture(picture, suffix)[0])).convert("RGB")
    colours = np.frombuffer(PALETTE, np.uint8).reshape(-1, 3)
    np.testing.assert_array_equal(np.asarray(image), colours[picture.samples[:, :, 0]])


@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("name", ["L16", "RGB16", "RGBA16", "RGB", "LA"])
def test_reads_tiff_of_other_writers(name, byteorder, compression):
    picture = make_picture(name)
    values = picture.samples[:, :, 0] if picture.mode.channels == 1 else picture.samples
    file = io.BytesIO()
    tifffile.imwrite(
        file, values, byteorder=byteorder, compression=compression,
        photometric="rgb" if "RGB" in name else "minisblack",
        extrasamples=["unassalpha"] if "A" in name else None,
    )  # fmt: skip
    assert_same(read_picture(file.getvalue()).picture, picture)


REFUSED = {
    "text": lambda: b"hello, world" * 10,
    "nothing": lambda: b"",
    "cut GIF": lambda: b"GIF89a\x05\0\x05\0",
    "cut JPEG": lambda: b"\xff\xd8\xff\xe0" + bytes(20),
    "cut WebP": lambda: write_picture(make_picture("RGB"), ".webp")[0][:60],
    "cut BMP": lambda: write_picture(make_picture("RGB"), ".bmp")[0][:90],
    "cut TIFF": lambda: write_picture(make_picture("RGB"), ".tiff")[0][:-300],
    "cut QOI": lambda: write_picture(make_picture("RGB"), ".qoi")[0][:10],
    "cut PPM": lambda: b"P6\n5 5\n255\n" + bytes(74),
    "PPM over white": lambda: b"P5\n1 1\n7\n\x08",
    "PPM without white": lambda: b"P5\n1 1\n",
    "PPM of letters": lambda: b"P2\n1 1\n255\nx\n",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_kept_is_refused_in_one_line(what):
    data = REFUSED[what]()
    with pytest.raises(InputError) as caught:
        read_picture(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "samples", "metadata"),
    [
        (b"P1\n# bits\n3 2\n101\n0 1 0\n", [[0, 1, 0], [1, 0, 1]], {}),
        (b"P4 3 2\n\xa0\x40", [[0, 1, 0], [1, 0, 1]], {}),
        (b"P2\n2 1\n#x\n255\n 7 255\n", [[7, 255]], {}),
        (b"P5\n2 1\n100\n\x07\x64", [[7, 100]], {"MAXV": b"\x64\0"}),
        (b"P5\n2 1\n1023\n\x03\xff\0\1", [[1023, 1]], {"MAXV": b"\xff\3"}),
        (b"P3\n1 1\n65535\n1 2 65535\n", [[1, 2, 65535]], {}),
    ],
)
def test_pnm_samples_are_those_of_the_file(data, samples, metadata):
    picture = read_picture(data).picture
    np.testing.assert_array_equal(picture.samples.reshape(len(samples), -1), samples)
    assert picture.metadata == metadata
    assert read_picture(write_picture(picture, ".pnm")[0]).picture.metadata == metadata


@pytest.mark.parametrize(
    ("name", "white", "suffix"),
    [("L", 100, ".pgm"), ("L16", 1023, ".pgm"), ("RGB", 254, ".ppm"), ("RGB16", 4095, ".ppm")],
)
def test_a_white_level_needs_pnm(name, white, suffix):
    block = struct.pack("<H", white)
    picture = make_picture(name, MAXV=block)
    picture = replace(picture, samples=picture.samples % (white + 1))
    assert default_suffix(picture) == suffix
    data, remarks = write_picture(picture, suffix)
    assert remarks == ()
    assert_same(read_picture(data).picture, picture)
    assert read_picture(data).picture.metadata == {"MAXV": block}
    for other in (".png", ".tiff"):
        data, remarks = write_picture(picture, other)
        assert remarks == (
            f"{other[1:]} cannot say that white is {white}, so the image will look darker",
        )
        assert_same(read_picture(data).picture, picture)


@pytest.mark.parametrize("depth", [2, 4])
def test_low_depths_come_back_in_their_depth(depth):
    samples = np.arange(16, dtype=np.uint8).reshape(4, 4, 1) % (1 << depth)
    data = write_png(Png(samples, depth, GREY, ((b"tRNS", b"\0\1"),)))
    picture = read_picture(data).picture
    assert picture.samples.max() == 255
    assert picture.metadata == {"BITS": bytes([depth]), "TRNS": b"\0\1"}
    assert write_picture(picture, ".png")[0] == data
    alpha = to_true_colour(picture).samples[:, :, 3]
    np.testing.assert_array_equal(alpha == 0, samples[:, :, 0] == 1)


@pytest.mark.parametrize("name", ["1", "L", "L16", "RGB", "RGB16", "P"])
def test_transparent_colours_become_alpha(name):
    picture = make_picture(name)
    first = picture.samples[0, 0].astype(int)
    if name == "P":
        block = b"\xff" * int(first[0]) + b"\x07"
        opaque, wanted = 255, 7
    else:
        block = first.astype(">u2").tobytes()
        opaque, wanted = (65535 if "16" in name else 255), 0
    picture = Picture(picture.samples, picture.mode, {**picture.metadata, "TRNS": block})
    alpha = to_true_colour(picture).samples[:, :, 3]
    is_first = (picture.samples == picture.samples[0, 0]).all(2)
    np.testing.assert_array_equal(alpha, np.where(is_first, wanted, opaque))
    assert_same(read_picture(write_picture(picture, ".png")[0]).picture, picture)


@pytest.mark.parametrize("profile", [b"", ICC])
def test_lossy_webp_is_read_with_a_warning(profile):
    for lossless in (False, True):
        file = io.BytesIO()
        image = Image.fromarray(make_picture("RGB").samples)
        image.save(file, "WEBP", lossless=lossless, icc_profile=profile)
        warned = () if lossless else ("stored exactly, its pixels take more bytes than this WebP",)
        assert read_picture(file.getvalue()).warnings == warned


def test_jpeg_is_read_with_a_warning():
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(
        file, "JPEG", exif=b"Exif\0\0" + make_exif(), icc_profile=ICC
    )  # fmt: skip
    reading = read_picture(file.getvalue())
    assert reading.warnings == ("stored exactly, its pixels take more bytes than this JPEG",)
    assert reading.picture.metadata["EXIF"] == make_exif()
    assert reading.picture.metadata["ICCP"] == ICC


def write_frames(kind: str, *colours: str, **options: object) -> bytes:
    frames = [Image.new("RGB", (8, 8), colour) for colour in colours]
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], lossless=True, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_of_several_frames_is_read(kind):
    reading = read_picture(write_frames(kind, "red", "blue", "green"))
    assert not reading.complete
    assert reading.frames == 3
    np.testing.assert_array_equal(to_true_colour(reading.picture).samples[0, 0], [255, 0, 0])


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_a_single_frame_is_all_there_is(kind):
    reading = read_picture(write_frames(kind, "red"))
    assert reading.complete
    assert reading.warnings == ()


def test_the_second_picture_of_a_jpeg_is_counted():
    reading = read_picture(write_frames("MPO", "red", "blue"))
    assert not reading.complete
    assert reading.frames == 2


@pytest.mark.parametrize("count", [1, 2])
def test_an_animation_may_leave_out_the_first_picture_of_a_png(count):
    data = write_frames("PNG", "red", *("blue", "green")[:count], default_image=True)
    reading = read_picture(data)
    assert not reading.complete
    assert reading.frames == 1 + count


def make_described_png() -> bytes:
    file = io.BytesIO()
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Title", "A picture")
    texts.add_text("Comment", "packed" * 30, zip=True)
    texts.add_itxt("Author", "J\u00fcrgen", "de", "Autor")
    texts.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
    texts.add(b"gAMA", struct.pack(">I", 45455))
    texts.add(b"sBIT", b"\5\6\5")
    texts.add(b"prVt", b"private", after_idat=True)
    Image.new("RGB", (4, 3), "teal").save(
        file, "PNG", pnginfo=texts, icc_profile=ICC, exif=make_exif(), dpi=(300, 150)
    )
    return file.getvalue()


def test_everything_in_a_png_survives():
    picture = read_picture(make_described_png()).picture
    assert set(picture.metadata) == {"ICCP", "EXIF", "XMP_", "TEXT", "GAMA", "PHYS", "PNGC"}
    again = write_picture(picture, ".png")[0]
    assert read_picture(again).picture.metadata == picture.metadata
    with Image.open(io.BytesIO(again)) as image:
        image.load()
        assert image.info["icc_profile"] == ICC
        assert image.info["Title"] == "A picture"
        assert image.info["Comment"] == "packed" * 30
        assert image.info["Author"] == "J\u00fcrgen"
        assert image.info["gamma"] == 0.45455
        assert [round(d) for d in image.info["dpi"]] == [300, 150]
        assert image.info["xmp"] == XMP
        assert image.getexif()[271] == "Camera Works"


@pytest.mark.parametrize(
    ("suffix", "kept", "lost"),
    [
        (".tiff", {"ICCP", "EXIF", "XMP_", "PHYS"}, "gamma, further PNG chunks, texts"),
        (".webp", {"ICCP", "EXIF", "XMP_"}, "gamma, the resolution, further PNG chunks, texts"),
        (
            ".bmp",
            {"PHYS"},
            "EXIF data, gamma, the colour profile, further PNG chunks, texts, XMP data",
        ),
        (
            ".qoi",
            set(),
            "EXIF data, gamma, the colour profile, the resolution, further PNG chunks, texts, "
            "XMP data",
        ),
    ],
)
def test_metadata_goes_where_there_is_a_place_for_it(suffix, kept, lost):
    picture = read_picture(make_described_png()).picture
    data, remarks = write_picture(picture, suffix)
    assert remarks == (f"{suffix[1:]} has no place for {lost}",)
    again = read_picture(data).picture
    assert_same(again, picture)  # not turned, whatever EXIF says about the orientation
    assert set(again.metadata) == kept
    for tag in kept & {"ICCP", "XMP_"}:
        assert again.metadata[tag] == picture.metadata[tag]
    if "EXIF" in kept:
        exif = Image.Exif()
        exif.load(again.metadata["EXIF"])
        assert (exif[271], exif[274]) == ("Camera Works", 6)
        assert float(exif.get_ifd(0x8769)[33434]) == 0.01


def test_strip_keeps_what_samples_need():
    blocks = {"PLTE": PALETTE, "TRNS": b"\0", "BITS": b"\4", "ICCP": ICC, "TIME": bytes(16)}
    assert set(
        strip_metadata(Picture(make_picture("P").samples, MODES["P"], blocks)).metadata
    ) == ESSENTIAL - {"MAXV"}


def test_times_are_kept_to_the_nanosecond(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    os.utime(tmp_path / "file", ns=(1_500_000_000_123_456_789, 1_400_000_000_987_654_321))
    block = time_block((tmp_path / "file").stat())
    assert file_times({"TIME": block}) == (1_400_000_000_987_654_321,) * 2
    assert file_times({"TIME": struct.pack("<qq", 3, 4)}) == (4, 3)
    assert file_times({}) is None


@pytest.mark.parametrize("block", [b"tEX", b"tEXt\5\0\0\0abc"])
def test_a_cut_list_of_chunks_is_named(block):
    with pytest.raises(DamagedError, match="cut short"):
        split_chunks(block)


@pytest.mark.parametrize(
    ("name", "suffix", "reason"),
    [
        ("RGB", ".jpg", "JPEG is lossy"),
        ("RGB", ".JPEG", "JPEG is lossy"),
        ("RGB", ".xyz", "cannot write .xyz: choose png"),
        ("RGB", "", "cannot write a file without an ending"),
        ("CMYK", ".png", "png cannot hold CMYK: choose tiff"),
        ("CMYK", ".webp", "webp cannot hold CMYK"),
        ("RGB16", ".webp", "webp cannot hold RGB16"),
        ("RGB16", ".bmp", "bmp cannot hold RGB16"),
        ("LA", ".bmp", "bmp cannot hold LA"),
        ("RGBA", ".ppm", "ppm cannot hold RGBA with transparency"),
        ("RGB", ".pgm", "pgm cannot hold RGB"),
        ("L", ".pbm", "pbm cannot hold L"),
    ],
)
def test_formats_that_cannot_hold_a_picture_say_so(name, suffix, reason):
    with pytest.raises(InputError, match=reason):
        write_picture(make_picture(name), suffix)


def test_the_default_format_holds_every_mode():
    for name in MODES:
        picture = make_picture(name)
        assert default_suffix(picture) in WRITABLE_SUFFIXES
        data, _ = write_picture(picture, default_suffix(picture))
        assert_same(read_picture(data).picture, picture)


def test_an_index_beyond_the_palette_is_black():
    picture = Picture(np.full((1, 1, 1), 250, np.uint8), MODES["P"], {"PLTE": PALETTE})
    np.testing.assert_array_equal(to_true_colour(picture).samples, 0)


def test_a_suggested_palette_of_a_colour_image_survives():
    chunk = (b"PLTE", PALETTE)
    data = write_png(Png(np.zeros((2, 2, 3), np.uint8), 8, RGB, (chunk,)))
    assert write_picture(read_picture(data).picture, ".png")[0] == data
