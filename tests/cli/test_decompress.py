"""lmzip decompress and verify: restored exactly, in lossless formats only, and only if whole."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import make_picture, start, write_image

import lmzip
from lmzip.cli.console import format_size
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import WRITABLE_SUFFIXES
from lmzip.options import Options
from lmzip.picture import MODES


def read(path):
    return read_picture(Path(path).read_bytes()).picture


@pytest.fixture
def photo(cli):
    """An image in `photo.png` and `photo.lmz`."""
    picture = write_image(Path("photo.png"))
    assert cli.compress("photo.png").code == 0
    return picture


@pytest.mark.parametrize("name", MODES)
def test_the_default_is_a_file_of_the_same_mode(cli, name):
    suffix = "tiff" if name == "CMYK" else "png"
    picture = write_image(Path(f"x.{suffix}"), make_picture(name))
    cli.compress("--rm", f"x.{suffix}")
    result = cli.decompress("x.lmz")
    assert (result.code, result.err) == (0, "")
    size = os.path.getsize(f"x.{suffix}")
    assert result.out == f"{f'x.{suffix}':<28} 18x12 {name} {format_size(size):>8} # s\n"
    restored = read(f"x.{suffix}")
    assert restored.mode.name == name
    np.testing.assert_array_equal(restored.samples, picture.samples)


@pytest.mark.parametrize(
    "suffix", [s for s in WRITABLE_SUFFIXES if s not in (".pgm", ".pbm", ".gif")]
)
def test_the_ending_chooses_the_format(cli, photo, suffix):
    result = cli.decompress("photo.lmz", "-o", f"out{suffix}")
    assert (result.code, result.err) == (0, "")
    np.testing.assert_array_equal(read(f"out{suffix}").samples, photo.samples)


def test_a_format_for_many(cli, photo):
    assert cli.decompress("photo.lmz", "--format", "webp", "-o", "out/").code == 0
    np.testing.assert_array_equal(read("out/photo.webp").samples, photo.samples)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("out.jpg", "JPEG is lossy and would change the pixels: choose png, tiff or webp"),
        ("out.JPEG", "JPEG is lossy and would change the pixels: choose png, tiff or webp"),
        (
            "out.apng",
            "cannot write .apng: choose png, tif, tiff, webp, ppm, pgm, pbm, pnm, bmp, qoi, gif",
        ),
    ],
)
def test_other_formats_are_refused_by_name(cli, photo, output, reason):
    result = cli.decompress("photo.lmz", "-o", output)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"lmzip: {output}: {reason}\nhint: see 'lmzip decompress --help'\n"
    assert not Path(output).exists()


def test_a_format_that_cannot_hold_the_picture_fails(cli):
    write_image(Path("x.png"), make_picture("RGBA16"))
    cli.compress("x.png")
    result = cli.decompress("x.lmz", "-o", "y.webp")
    assert (result.code, result.err) == (
        1, "lmzip: x.lmz: webp cannot hold RGBA16: choose tiff\n"
    )  # fmt: skip


def test_lost_metadata_is_mentioned(cli):
    from PIL import Image

    Image.new("RGB", (5, 5)).save("x.png", icc_profile=b"profile")
    cli.compress("x.png")
    result = cli.decompress("x.lmz", "-o", "y.qoi")
    assert (result.code, result.err) == (
        0, "lmzip: y.qoi: warning: qoi has no place for the colour profile\n"
    )  # fmt: skip


def test_existing_outputs_stay(cli, photo):
    before = Path("photo.png").read_bytes()
    result = cli.decompress("photo.lmz")
    assert (result.code, result.out, result.err) == (
        1, "", "lmzip: photo.lmz: photo.png already exists\nhint: -f overwrites it\n"
    )  # fmt: skip
    assert Path("photo.png").read_bytes() == before
    assert cli.decompress("-f", "photo.lmz").code == 0


def test_never_over_the_input(cli, photo):
    os.rename("photo.lmz", "sly.png")
    result = cli.decompress("-f", "sly.png")
    assert (result.code, result.err.splitlines()[0]) == (
        1, "lmzip: sly.png: the output would replace the input"
    )  # fmt: skip


def test_rm_deletes_the_compressed_file(cli, photo):
    assert cli.decompress("--rm", "photo.lmz", "-o", "y.png").code == 0
    assert sorted(os.listdir()) == ["photo.png", "y.png"]


@pytest.mark.usefixtures("photo")
def test_rm_needs_a_file_to_restore_to(cli):
    result = cli.decompress("--rm", "-c", "photo.lmz")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("lmzip: --rm deletes only what is safe in a file: leave out -c\n")
    assert Path("photo.lmz").exists()


def test_rm_keeps_an_archive_that_is_not_all_restored(cli):
    make_archive(cli, ["a.png", "bb.png"])
    Path("all").mkdir()
    Path("all/bb.png").write_bytes(b"in the way")
    assert cli.decompress("--rm", "all.lmz").code == 1
    assert Path("all.lmz").exists()
    assert Path("all/a.png").exists()
    assert cli.decompress("--rm", "-f", "all.lmz").code == 0
    assert not Path("all.lmz").exists()


@pytest.mark.parametrize("option", [["--region", "0,0,2,2"], ["--only", "0"]])
def test_rm_does_not_lose_parts(cli, photo, option):
    result = cli.decompress("--rm", *option, "photo.lmz", "-o", "y.png")
    assert result.code == 2
    assert result.err.startswith("lmzip: --rm would lose ")
    assert Path("photo.lmz").exists()


def test_a_region(cli, photo):
    assert cli.decompress("photo.lmz", "--region", "2,3,5,7", "-o", "part.png").code == 0
    np.testing.assert_array_equal(read("part.png").samples, photo.samples[2:7, 3:10])


@pytest.mark.parametrize(
    ("region", "code", "error"),
    [
        ("1,2,3", 2, "Invalid value for '--region': '1,2,3' is not TOP,LEFT,HEIGHT,WIDTH"),
        ("a,b,c,d", 2, "Invalid value for '--region': 'a,b,c,d' is not TOP,LEFT,HEIGHT,WIDTH"),
        ("0,0,13,18", 1, "photo.lmz: region top=0 left=0 height=13 width=18 does not lie within"),
        ("0,0,0,5", 1, "photo.lmz: region top=0 left=0 height=0 width=5 does not lie within"),
    ],
)
def test_regions_that_do_not_exist(cli, photo, region, code, error):
    result = cli.decompress("photo.lmz", "--region", region, "-o", "part.png")
    assert result.code == code
    assert result.err.startswith(f"lmzip: {error}")
    assert not Path("part.png").exists()


def test_stdout(cli, photo):
    process = start("decompress", "-c", "photo.lmz", "--model", cli.model)
    out, err = process.communicate()
    assert process.returncode == 0
    np.testing.assert_array_equal(read_picture(out).picture.samples, photo.samples)
    assert err.startswith(b"photo.lmz ")


def damage(path, position=-20):
    data = bytearray(Path(path).read_bytes())
    data[position] ^= 1
    Path(path).write_bytes(data)


@pytest.mark.parametrize("command", [["decompress"], ["decompress", "-t"], ["verify"]])
def test_damage_is_exit_3_and_writes_nothing(cli, photo, command):
    os.unlink("photo.png")
    damage("photo.lmz")
    result = cli(*command, "--model", cli.model, "photo.lmz")
    assert (result.code, result.out, len(result.err.splitlines())) == (3, "", 1)
    assert result.err.startswith("lmzip: photo.lmz: ")
    assert "damaged" in result.err
    assert os.listdir() == ["photo.lmz"]


@pytest.mark.parametrize("keep", [3, 20, -1])
def test_a_cut_file_is_damaged_or_not_ours(cli, photo, keep):
    Path("cut.lmz").write_bytes(Path("photo.lmz").read_bytes()[:keep])
    result = cli("verify", "cut.lmz", "--model", cli.model)
    assert result.code == (1 if keep == 3 else 3)
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["decompress", "verify", "info"])
def test_something_else_is_exit_1(cli, photo, command):
    result = cli(command, "photo.png")
    assert (result.code, result.err) == (
        1, "lmzip: photo.png: not an lmz file (the first bytes are wrong)\n"
    )  # fmt: skip


def test_a_missing_model_is_exit_4(cli, photo):
    result = cli("verify", "photo.lmz")
    assert result.code == 4
    assert result.err.startswith("lmzip: photo.lmz: the file needs model 'tiny' ")


def test_the_gravest_failure_gives_the_exit_code(cli, photo):
    Path("bad.lmz").write_bytes(Path("photo.lmz").read_bytes())
    damage("bad.lmz")
    result = cli("verify", "--model", cli.model, "missing.lmz", "bad.lmz", "photo.lmz")
    assert result.code == 3
    assert result.out == f"{'photo.lmz':<28} ok # s\n"
    assert [line.split(": ")[1] for line in result.err.splitlines()] == ["missing.lmz", "bad.lmz"]


def test_verify_against_an_image(cli, photo):
    result = cli("verify", "photo.lmz", "--model", cli.model, "--against", "photo.png")
    assert (result.code, result.out) == (
        0, f"{'photo.lmz':<28} ok, the same as photo.png # s\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (make_picture("L"), "is RGB, other.png is L"),
        (make_picture(height=3), "is 18x12, other.png is 18x3"),
    ],
)
def test_verify_against_another_kind_of_image(cli, photo, other, reason):
    write_image(Path("other.png"), other)
    result = cli("verify", "photo.lmz", "--model", cli.model, "--against", "other.png")
    assert (result.code, result.out, result.err) == (3, "", f"lmzip: photo.lmz: {reason}\n")


def test_verify_against_other_pixels(cli, photo):
    samples = photo.samples.copy()
    samples[4, 5, 1] ^= 1
    samples[7, 2, 0] ^= 1
    write_image(Path("other.png"), type(photo)(samples, photo.mode))
    result = cli("verify", "photo.lmz", "--model", cli.model, "--against", "other.png")
    assert (result.code, result.err) == (
        3, "lmzip: photo.lmz: 2 pixels differ from other.png, the first in row 4, column 5\n"
    )  # fmt: skip


def make_archive(cli, names):
    pictures = {name: make_picture(seed=len(name)) for name in names}
    data = lmzip.pack_archive(pictures.items(), Options(model=cli.model))
    Path("all.lmz").write_bytes(data)
    return pictures


def test_an_archive_becomes_a_folder(cli):
    pictures = make_archive(cli, ["a.png", "sub/bb.webp", "ccc.gif", "dddd"])
    result = cli.decompress("all.lmz")
    assert (result.code, result.err) == (
        0, "lmzip: all.lmz: warning: restored as png: gif cannot hold RGB: choose png\n"
    )  # fmt: skip
    written = {"a.png": "a.png", "sub/bb.webp": "sub/bb.webp", "ccc.png": "ccc.gif"}
    for path, name in {**written, "dddd.png": "dddd"}.items():
        np.testing.assert_array_equal(read(Path("all", path)).samples, pictures[name].samples)


def test_images_of_an_archive_never_share_a_file(cli):
    pictures = make_archive(cli, ["a.gif", "a.png", "a.ppm", "b/c.gif"])
    assert cli.decompress("all.lmz").code == 0
    names = {"a.gif": "a.gif.png", "a.png": "a.png", "a.ppm": "a.ppm", "b/c.gif": "b/c.png"}
    for name, path in names.items():
        np.testing.assert_array_equal(read(Path("all", path)).samples, pictures[name].samples)
    assert cli.decompress("all.lmz", "--format", "tiff", "-o", "tiffs").code == 0
    assert sorted(os.listdir("tiffs")) == ["a.gif.tiff", "a.png.tiff", "a.ppm.tiff", "b"]


def test_the_output_of_an_archive_is_a_folder_unless_it_is_named_as_an_image(cli):
    make_archive(cli, ["a.png", "bb.png"])
    assert cli.decompress("all.lmz", "-o", "out.v1").code == 0
    assert sorted(os.listdir("out.v1")) == ["a.png", "bb.png"]
    result = cli.decompress("all.lmz", "-o", "out.png")
    assert (result.code, result.err) == (
        1,
        "lmzip: all.lmz: out.png is one file, and the archive has 2 images\n"
        "hint: -o FOLDER takes them all, --only NAME one of them\n",
    )
    assert not Path("out.png").exists()


@pytest.mark.parametrize("wanted", ["bb.png", "1"])
def test_one_image_of_an_archive(cli, wanted):
    pictures = make_archive(cli, ["a.png", "bb.png"])
    result = cli.decompress("all.lmz", "--only", wanted, "-o", "one.tiff")
    assert (result.code, result.err) == (0, "")
    np.testing.assert_array_equal(read("one.tiff").samples, pictures["bb.png"].samples)


def test_an_image_that_is_not_in_the_archive(cli):
    make_archive(cli, ["a.png"])
    result = cli.decompress("all.lmz", "--only", "7")
    assert (result.code, result.err) == (
        1, "lmzip: all.lmz: no image '7' among the 1 of the archive\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["../evil.png", "/tmp/evil.png", "a/../../evil.png", "..\\evil.png", "", "/"]
)
def test_archives_cannot_write_elsewhere(cli, name):
    make_archive(cli, ["fine.png", name])
    Path("below").mkdir()
    result = cli.decompress("all.lmz", "-o", "below/out")
    assert result.code == 1
    assert result.err == f"lmzip: all.lmz: {name}: the name {name!r} would leave the folder\n"
    files = [str(path) for path in Path().rglob("*") if path.is_file()]
    assert sorted(files) == ["all.lmz", "below/out/fine.png"]


@pytest.mark.parametrize("name", ["/dev/zero", "../evil.png", "a/../../evil.png"])
def test_archives_are_not_compared_with_files_elsewhere(cli, name):
    picture = make_archive(cli, [name])[name]
    Path("below/out/a").mkdir(parents=True)
    write_image(Path("below/evil.png"), picture)
    write_image(Path("evil.png"), picture)
    result = cli("verify", "all.lmz", "--model", cli.model, "--against", "below/out")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"lmzip: all.lmz: the name {name!r} would leave the folder\n"


def test_names_with_backslashes_are_compared(cli):
    write_image(Path("in/a\\b.png"))
    assert cli.compress("--archive", "-r", "in", "-o", "all.lmz").code == 0
    assert cli("verify", "all.lmz", "--model", cli.model, "--against", "in").code == 0


def test_an_archive_of_arrays_is_numbered(cli):
    images = np.random.default_rng(0).integers(0, 256, (3, 6, 6, 3), np.uint8)
    Path("all.lmz").write_bytes(lmzip.compress_batch(images, model=cli.model))
    assert cli.decompress("all.lmz", "-o", "out").code == 0
    assert sorted(os.listdir("out")) == ["000000.png", "000001.png", "000002.png"]
    np.testing.assert_array_equal(read("out/000002.png").samples, images[2])


def test_what_is_whole_of_a_damaged_archive_is_saved(cli):
    names = [f"{'x' * number}.png" for number in range(1, 5)]
    pictures = {
        name: make_picture("P", 9, 9, seed=number) for number, name in enumerate(names)
    }  # each in a chunk of its own
    data = bytearray(lmzip.pack_archive(pictures.items(), Options(model=cli.model)))
    data[len(data) // 3] ^= 1
    Path("all.lmz").write_bytes(data)
    result = cli.decompress("all.lmz")
    assert (result.code, len(result.err.splitlines())) == (3, 1)
    assert len(result.out.splitlines()) == 3


def test_images_of_a_whole_batch_are_saved_and_the_others_named(cli, monkeypatch):
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 2 * 12 * 18)
    make_archive(cli, ["a.png", "bb.png", "ccc.png", "dddd.png"])
    damage("all.lmz", 40)
    result = cli.decompress("all.lmz")
    assert result.code == 3
    reason = "checksum mismatch at byte 6 (file is damaged)"
    assert result.err == "".join(f"lmzip: all.lmz: {n}.png: {reason}\n" for n in ("a", "bb"))
    assert sorted(os.listdir("all")) == ["ccc.png", "dddd.png"]


def test_archives_are_verified(cli):
    make_archive(cli, ["a.png", "bb.png"])
    assert cli("verify", "all.lmz", "--model", cli.model).code == 0
    damage("all.lmz", len(Path("all.lmz").read_bytes()) // 3)
    assert cli("verify", "all.lmz", "--model", cli.model).code == 3


def test_json(cli, photo):
    document = json.loads(cli.decompress("--json", "photo.lmz", "-o", "y.png").out)
    entry = document["files"][0]
    assert entry.pop("seconds") >= 0
    assert entry == {
        "input": "photo.lmz", "output": "y.png", "height": 12, "width": 18, "mode": "RGB",
        "frames": 1, "bytes": os.path.getsize("y.png"),
    }  # fmt: skip
    assert document["exit_code"] == 0
