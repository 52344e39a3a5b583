"""Nothing is lost without a word: what a try as a new user and as an attacker found."""

import io
import json
import os
import resource
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from support.cli_runner import make_picture, start, write_image
from support.networks import ANY_ORDER, compact_network, write_model

from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.errors import DamagedError
from lmzip.formats.metadata import join_chunks, split_chunks
from lmzip.formats.png import RGB, Png, write_png
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import write_picture
from lmzip.options import Options
from lmzip.picture import MODES, Picture


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_stdout_is_written_whole_or_the_command_fails(cli, unbuffered):
    """Without Python's buffer, a short write went unnoticed: 4096 bytes of 31273, exit code 0."""
    write_image(Path("x.png"), make_picture(height=90, width=100))
    assert cli.compress("x.png").code == 0

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    with open("out", "wb") as out:
        process = start(
            "decompress", "-c", "x.lmz", "--model", cli.model, stdout=out, preexec_fn=limit_files,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (1, b"lmzip: x.lmz: standard output: File too large\n")


def test_texts_of_tiff_keep_their_bytes(cli):
    file = io.BytesIO()
    tags = Image.Exif()
    tags[315] = "Jörg".encode()  # artist, in UTF-8
    tags[270] = "caf\xe9".encode("latin-1")
    Image.new("RGB", (40, 30)).save(file, "TIFF", exif=tags)
    assert "Jörg".encode() in file.getvalue()
    Path("x.tiff").write_bytes(file.getvalue())
    assert cli.compress("x.tiff").code == 0
    for name in ("y.tiff", "y.png", "y.webp"):
        assert cli.decompress("x.lmz", "-o", name).code == 0
        assert "Jörg".encode() in Path(name).read_bytes()
        assert b"caf\xe9\0" in Path(name).read_bytes()


def test_comments_of_gif_are_kept(cli):
    Image.new("P", (9, 8)).save("x.gif", comment=b"made by hand")
    cli.compress("x.gif")
    Path("x.gif").unlink()
    cli.decompress("x.lmz")
    with Image.open("x.gif") as image:
        assert image.info["comment"] == b"made by hand"
    cli.decompress("x.lmz", "-o", "x.png")
    with Image.open("x.png") as image:
        assert image.info["Comment"] == "made by hand"


def test_bmp_with_alpha_comes_back(cli):
    picture = make_picture("RGBA")
    write_image(Path("in/x.bmp"), picture)
    assert read_picture(Path("in/x.bmp").read_bytes()).picture.mode.name == "RGBA"
    assert cli.compress("-r", "in", "--archive", "-o", "all.lmz").code == 0
    assert cli.decompress("all.lmz", "-o", "out").code == 0
    back = read_picture(Path("out/x.bmp").read_bytes()).picture
    np.testing.assert_array_equal(back.samples, picture.samples)


def test_a_format_that_cannot_hold_an_image_is_replaced(cli):
    """By one that can, with a word about it: the name in an archive is no reason to fail."""
    image = make_picture("LA")
    Path("x.bmp").write_bytes(write_picture(image, ".png")[0])
    cli.compress("x.bmp", "--archive", "-o", "all.lmz")
    result = cli.decompress("all.lmz", "-o", "out")
    assert (result.code, os.listdir("out")) == (0, ["x.png"])
    assert "restored as png: bmp cannot hold LA" in result.err


@pytest.mark.parametrize("ending", ["bmp", "tiff", "ppm", "webp", "qoi", "png"])
def test_a_single_file_remembers_its_format(cli, ending):
    write_image(Path(f"x.{ending}"))
    cli.compress(f"x.{ending}")
    before = Path(f"x.{ending}").rename("original")
    result = cli.decompress("x.lmz")
    assert (result.code, result.err) == (0, "")
    assert Path(f"x.{ending}").read_bytes()[:4] == before.read_bytes()[:4]
    metadata = decompress_picture(Path("x.lmz").read_bytes(), model=cli.model).metadata
    assert metadata.get("FORM") == (None if ending == "png" else ending.encode())


def test_lmzip_alone_shows_its_help(cli):
    result = cli()
    assert result.code == 2
    assert result.err.startswith("Usage: lmzip")
    assert len(result.err.splitlines()) > 20


def test_one_file_for_several_images_is_an_archive(cli):
    write_image(Path("a.png"))
    write_image(Path("b.png"))
    result = cli.compress("a.png", "b.png", "-o", "two.lmz")
    assert result.code == 2
    assert "--archive" in result.err
    assert not Path("two.lmz").exists()


def test_any_resolution_of_png_can_be_restored(cli):
    phys = (b"pHYs", struct.pack(">IIB", 0xFFFFFFFF, 0xFFFFFFFF, 1))
    Path("p.png").write_bytes(write_png(Png(make_picture().samples, 8, RGB, (phys,))))
    cli.compress("p.png")
    for ending in ("bmp", "tiff", "png", "webp"):
        assert cli.decompress("p.lmz", "-o", f"q.{ending}").code == 0


CRAFTED = [
    ("L", {"BITS": b"\0"}), ("L", {"BITS": b"\xc8"}), ("L", {"BITS": b""}), ("P", {"BITS": b"\0"}),
    ("P", {"PLTE": b""}), ("P", {"PLTE": b"\1\2"}), ("P", {"PLTE": bytes(771)}),
    ("P", {"PLTE": bytes(3), "TRNS": bytes(257)}), ("L", {"TRNS": b"1"}), ("L", {"TRNS": b"123"}),
    ("RGB", {"TRNS": b"12"}), ("L", {"MAXV": b"\0\0"}), ("L", {"MAXV": b"123"}),
    ("L", {"MAXV": b"\0\1"}), ("CMYK", {"TRNS": b"12"}), ("RGB", {"BITS": b"\4"}),
    ("1", {"BITS": b"\4"}), ("L16", {"BITS": b"\4"}), ("L", {"BITS": b"\2"}),
    ("P", {"BITS": b"\1"}),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "metadata"), CRAFTED)
def test_crafted_metadata_is_damage(cli, mode, metadata):
    picture = make_picture(mode)
    data = compress_picture(Picture(picture.samples, picture.mode, metadata))
    Path("x.lmz").write_bytes(data)
    for ending in ("png", "tiff", "bmp", "webp", "pnm", "qoi"):
        result = cli("decompress", "x.lmz", "-o", f"y.{ending}")
        assert result.code == 3, (ending, result.err)
        assert "the metadata block" in result.err


def test_chunks_of_metadata_cannot_be_pixels():
    for kind in (b"IDAT", b"IHDR", b"PLTE", b"a\0bc"):
        with pytest.raises(DamagedError, match="a chunk called"):
            split_chunks(join_chunks([(kind, b"")]))


def test_layouts_that_are_not_supported_are_not_called_damaged(cli):
    header = struct.pack("<IiiHHIIiiII", 40, 4, 4, 1, 16, 3, 32, 0, 0, 0, 0)
    masks = struct.pack("<III", 0xF000, 0x0F00, 0x00F0)
    bmp = b"BM" + struct.pack("<IHHI", 98, 0, 0, 66) + header + masks + bytes(32)
    Path("x.bmp").write_bytes(bmp)
    result = cli.compress("x.bmp")
    assert result.code == 1
    assert "not supported" in result.err
    assert "damaged" not in result.err


def test_tiff_files_of_a_kind_that_libtiff_cannot_read(cli):
    """One line by lmzip, and none by the library below it."""
    tifffile.imwrite("x.tiff", make_picture().samples, photometric="rgb", compression="deflate")
    before, tag, after = Path("x.tiff").read_bytes().partition(struct.pack("<HHI", 259, 3, 1))
    Path("x.tiff").write_bytes(before + tag + struct.pack("<H", 50001) + after[2:])
    result = cli.compress("x.tiff")
    assert (result.code, result.err) == (
        1, "lmzip: x.tiff: TIFF compression 50001 is not supported\n"
    )  # fmt: skip


def test_jpeg_inside_tiff_is_taken_with_a_warning(cli):
    image = Image.fromarray(np.kron(make_picture().samples, np.ones((4, 4, 1), np.uint8)))
    image.save("x.tiff", compression="jpeg")
    result = cli.compress("--rm", "x.tiff")
    assert result.code == 0
    assert "stored exactly, its pixels take more bytes than this JPEG in TIFF" in result.err
    assert "not deleted: it is smaller than the output" in result.err
    assert Path("x.tiff").exists()


def test_a_folder_with_files_that_share_a_stem(cli):
    pictures = {ending: make_picture(seed=n) for n, ending in enumerate(("bmp", "png", "tiff"))}
    for ending, picture in pictures.items():
        write_image(Path(f"in/deep/a.{ending}"), picture)
    result = cli.compress("-r", "--rm", "in")
    assert (result.code, result.err) == (0, "")
    assert sorted(os.listdir("in/deep")) == [f"a.{ending}.lmz" for ending in pictures]
    assert cli.decompress("-r", "--rm", "in").code == 0
    assert sorted(os.listdir("in/deep")) == [f"a.{ending}" for ending in pictures]
    for ending, picture in pictures.items():
        back = read_picture(Path(f"in/deep/a.{ending}").read_bytes())
        assert back.format.lower() == ending
        np.testing.assert_array_equal(back.picture.samples, picture.samples)


def test_one_image_is_not_one_images(cli):
    write_image(Path("in/a.png"))
    Path("in/b.jpg").write_bytes(b"")
    result = cli.compress("-r", "in", "--archive", "-o", "one.lmz")
    assert "1 JPEG file skipped" in result.err
    assert "  archive   1 image, 18x12 pixels, RGB\n" in cli("info", "one.lmz").out


def test_metadata_is_called_by_its_name(cli):
    """Not by the tags that it has in our files."""
    exif = Image.Exif()
    exif[271] = "Camera Works"
    image = Image.new("RGB", (5, 5))
    image.save("x.png", icc_profile=b"profile", dpi=(300, 300), exif=exif)
    cli.compress("x.png")
    for ending, missing in {
        "bmp": "EXIF data, the colour profile",
        "qoi": "EXIF data, the colour profile, the resolution",
        "webp": "the resolution",
    }.items():
        result = cli.decompress("x.lmz", "-o", f"y.{ending}")
        assert (result.code, result.err) == (
            0, f"lmzip: y.{ending}: warning: {ending} has no place for {missing}\n"
        )  # fmt: skip


@pytest.mark.parametrize("archive", [[], ["--archive", "-o", "x.lmz"]])
def test_rm_keeps_what_a_format_has_no_place_for(cli, archive):
    image = Image.fromarray(make_picture(height=40, width=60).samples)
    image.save("x.png", icc_profile=bytes(500), compress_level=0)
    assert cli.compress("--rm", *archive, "x.png").code == 0
    result = cli.decompress("--rm", "x.lmz", "-o", "x.bmp")
    assert (result.code, result.err) == (
        0,
        "lmzip: x.bmp: warning: bmp has no place for the colour profile\n"
        "lmzip: x.lmz: warning: not deleted: not all of it is in the output\n",
    )
    assert sorted(os.listdir()) == ["x.bmp", "x.lmz"]
    assert cli.decompress("--rm", "x.lmz", "-o", "x.png").code == 0
    assert sorted(os.listdir()) == ["x.bmp", "x.png"]


def test_rm_keeps_what_only_gif_can_hold(cli):
    Image.new("P", (90, 80)).save("x.gif", comment=b"made by hand", duration=50)
    assert cli("compress", "x.gif").code == 0
    result = cli("decompress", "--rm", "x.lmz", "-o", "x.png")
    assert "not deleted: not all of it is in the output" in result.err
    assert Path("x.lmz").exists()
    assert cli("decompress", "--rm", "-f", "x.lmz").code == 0
    assert not Path("x.lmz").exists()


def test_a_hint_is_given_once(cli):
    for name in ("a", "b", "c"):
        write_image(Path(f"{name}.png"))
        Path(f"{name}.lmz").write_bytes(b"")
    result = cli.compress("a.png", "b.png", "c.png")
    assert result.err.count("hint: -f overwrites it") == 1
    assert result.err.count("already exists") == 3


def test_larger_outputs_keep_their_inputs(cli):
    flat = Picture(np.full((64, 64, 3), 7, np.uint8), MODES["RGB"])
    Path("x.png").write_bytes(write_picture(flat, ".png")[0])
    result = cli.compress("--rm", "x.png")  # forced to use an untrained network
    assert result.code == 0
    assert "the input only" in result.err
    assert "not deleted" in result.err
    assert Path("x.png").exists()
    result = cli.compress("--rm", "--skip-existing", "x.png")
    assert (result.code, result.err) == (
        0, "lmzip: x.png: warning: not deleted: it is smaller than the output\n"
    )  # fmt: skip
    assert Path("x.png").exists()


def test_larger_archives_keep_their_inputs(cli):
    for name in ("a.png", "b.png"):
        flat = Picture(np.full((64, 64, 3), ord(name[0]), np.uint8), MODES["RGB"])
        Path(name).write_bytes(write_picture(flat, ".png")[0])
    inputs = sum(os.path.getsize(name) for name in os.listdir())
    result = cli.compress("--archive", "--rm", "a.png", "b.png", "-o", "all.lmz")
    assert result.code == 0
    assert result.err == (
        f"lmzip: all.lmz: warning: it has {os.path.getsize('all.lmz')} bytes, the inputs only "
        f"{inputs}\n"
        "lmzip: all.lmz: warning: no input deleted: together they are smaller than the output\n"
    )
    assert sorted(os.listdir()) == ["a.png", "all.lmz", "b.png"]


def test_a_file_that_changes_is_not_deleted(cli, monkeypatch):
    write_image(Path("x.png"))

    def change(*_args, **_options):
        data = compress_picture(*_args, **_options)
        Path("x.png").write_bytes(b"something new")
        return data

    monkeypatch.setattr("lmzip.cli.compressing.compress_picture", change)
    result = cli.compress("--rm", "x.png")
    assert (result.code, result.err) == (
        1, "lmzip: x.png: not deleted: it changed after it was read\n"
    )  # fmt: skip
    assert Path("x.png").read_bytes() == b"something new"


def test_endless_inputs_are_refused(cli):
    for command in (["info"], ["verify"], ["compress", "-o", "x.lmz"]):
        result = cli(*command, "/dev/zero", "--memory", "1M")
        assert result.code == 1
        assert "the limit is 1048576: --memory" in result.err


def test_limits_are_options(cli):
    write_image(Path("x.png"), make_picture(height=20, width=30))
    assert cli.compress("x.png").code == 0
    for command in (["compress", "-f"], ["verify"], ["info"], ["decompress", "-f"]):
        name = "x.png" if command[0] == "compress" else "x.lmz"
        result = cli(*command, "--max-pixels", "599", name)
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            f"lmzip: {name}: 30x20 pixels, the limit is 599: --max-pixels or LMZIP_MAX_PIXELS "
            "raises it\n"
        )
    assert cli("info", "--max-pixels", "many", "x.lmz").code == 2


def damaged_tiles(model: str) -> tuple[bytes, Picture]:
    picture = make_picture(height=40, width=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (20, 20))
        data = compress_picture(picture, Options(model=model))
    return data, picture


def test_salvage_restores_whole_tiles(cli):
    data, picture = damaged_tiles(cli.model)
    Path("x.lmz").write_bytes(data[: len(data) // 2] + b"!!" + data[len(data) // 2 + 2 :])
    assert cli.decompress("x.lmz").code == 3
    assert not Path("x.png").exists()
    result = cli.decompress("--salvage", "--rm", "x.lmz")
    assert result.code == 3
    assert "lost: rows" in result.err
    back = read_picture(Path("x.png").read_bytes()).picture.samples
    same = (back == picture.samples).all(2)
    tiles = [same[r : r + 20, c : c + 20].all() for r in (0, 20) for c in (0, 20, 40)]
    assert sum(tiles) == 5
    assert Path("x.lmz").exists()


def test_salvage_of_a_cut_file(cli):
    data, picture = damaged_tiles(cli.model)
    Path("x.lmz").write_bytes(data[: len(data) * 2 // 3])
    result = cli.decompress("--salvage", "x.lmz")
    assert result.code == 3
    back = read_picture(Path("x.png").read_bytes()).picture.samples
    np.testing.assert_array_equal(back[:20], picture.samples[:20])
    assert not back[-1, -20:].any()


def test_archives_are_listed_and_compared(cli):
    for number in range(3):
        write_image(Path(f"in/{number}.png"), make_picture(seed=number))
    assert cli.compress("-r", "in", "--archive", "-o", "all.lmz").code == 0
    listed = cli("info", "--list", "all.lmz").out.splitlines()[-3:]
    assert [line.split() for line in listed] == [
        [str(n), "18x12", "RGB", "network", f"{n}.png"] for n in range(3)
    ]
    document = json.loads(cli("info", "--list", "--json", "all.lmz").out)
    images = document["files"][0]["images"]
    assert [image["name"] for image in images] == ["0.png", "1.png", "2.png"]
    assert set(images[0]) == {"number", "name", "height", "width", "mode", "method", "metadata"}
    verify = ("verify", "all.lmz", "--model", cli.model, "--against", "in")
    assert cli(*verify).code == 0
    write_image(Path("in/1.png"), make_picture(seed=9))
    result = cli(*verify)
    assert result.code == 3
    assert "1.png" in result.err


def test_a_broken_off_run_goes_on(cli):
    for number in range(4):
        write_image(Path(f"in/{number}.png"), make_picture(seed=number))
    assert cli.compress("-r", "in", "-o", "out").code == 0
    Path("out/2.lmz").unlink()
    before = Path("out/1.lmz").stat().st_mtime_ns
    Path("out/3.lmz").write_bytes(Path("out/0.lmz").read_bytes())  # another image
    result = cli.compress("-r", "in", "-o", "out", "--skip-existing", "--rm")
    assert result.code == 1
    assert "out/3.lmz exists and is not this image" in result.err
    assert sorted(os.listdir("in")) == ["3.png"]
    assert Path("out/2.lmz").exists()
    assert Path("out/1.lmz").stat().st_mtime_ns == before


def test_a_wrong_custom_order_is_damage(cli):
    picture = make_picture(height=4, width=4)
    order = tuple(reversed(range(16)))
    model = write_model(compact_network(orders=ANY_ORDER, name="any"), Path())
    data = bytearray(compress_picture(picture, Options(model=str(model), order=order)))
    packed = zlib.compress(np.diff(np.array(order, "<i4"), prepend=np.int32(0)).tobytes(), 9)
    wrong = zlib.compress(np.full(16, 3, "<i4").tobytes(), 9)
    start_of = bytes(data).index(packed)
    header_length = data[6]
    shift = len(wrong) - len(packed)
    changed = data[:start_of] + wrong + data[start_of + len(packed) :]
    changed[start_of - 1] += shift
    assert header_length + shift < 128
    changed[6] += shift
    end = 7 + changed[6]
    changed[end : end + 4] = zlib.crc32(changed[:end]).to_bytes(4, "little")
    Path("x.lmz").write_bytes(changed)
    result = cli("verify", "x.lmz", "--model", model)
    assert result.code == 3
    assert "the stored order" in result.err
