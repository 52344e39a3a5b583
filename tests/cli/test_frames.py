"""Animations and documents on the command line: kept whole, and restored as they were."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.animations import make_animations, make_frames, show
from support.cli_runner import make_picture, write_image

import lmzip
from lmzip.formats.frames import read_frames
from lmzip.formats.reading import read_picture

ANIMATIONS = make_animations()
KINDS = ("gif", "png", "webp", "tiff")


def write_animations(folder: str = ".") -> None:
    Path(folder).mkdir(exist_ok=True)
    for kind in KINDS:
        Path(folder, f"a-{kind}.{kind}").write_bytes(ANIMATIONS[kind])


def roomy(data: bytes, kind: str) -> bytes:
    """Make an animation larger, so that an untrained network does not make it grow."""
    return data if kind == "tiff" else data + bytes(20_000)


@pytest.mark.parametrize("kind", KINDS)
def test_an_animation_comes_back_after_rm(cli, kind):
    data = roomy(ANIMATIONS[kind], kind)
    Path(f"x.{kind}").write_bytes(data)
    os.utime(f"x.{kind}", ns=(1_600_000_000_000_000_000,) * 2)
    result = cli.compress("--rm", f"x.{kind}")
    assert (result.code, result.err) == (0, "")
    assert os.listdir() == ["x.lmz"]
    result = cli.decompress("--rm", "x.lmz")
    assert (result.code, result.err) == (0, "")
    assert os.listdir() == [f"x.{kind}"]
    back = Path(f"x.{kind}").read_bytes()
    assert show(back) == show(data)
    assert os.stat(f"x.{kind}").st_mtime_ns == 1_600_000_000_000_000_000


def test_a_document_gets_the_ending_that_it_had(cli):
    for name in ("x.tif", "Y.TIF", "z.tiff"):
        Path(name).write_bytes(ANIMATIONS["tiff"])
    assert cli.compress("--rm", "x.tif", "Y.TIF", "z.tiff").code == 0
    assert "FORM" not in lmzip.Archive("z.lmz", model=cli.model).metadata(0)
    assert cli.decompress("x.lmz", "Y.lmz", "z.lmz").code == 0
    assert sorted(path.name for path in Path().glob("*.tif*")) == ["Y.tif", "x.tif", "z.tiff"]
    assert show(Path("x.tif").read_bytes()) == show(ANIMATIONS["tiff"])
    assert cli.decompress("x.lmz", "-o", "other.tiff").code == 0
    assert cli.decompress("x.lmz", "--only", "0", "--only", "1", "-o", "pages").code == 0
    assert sorted(os.listdir("pages")) == ["000000.png", "000001.png"]


def test_frames_are_listed_and_restored_one_by_one(cli):
    write_animations()
    assert cli.compress("a-png.png").code == 0
    listed = cli("info", "--list", "a-png.lmz").out
    assert "come back as that file" in listed
    assert [line.split()[0] for line in listed.splitlines()[-4:]] == ["0", "1", "2", "3"]
    result = cli.decompress("a-png.lmz", "--only", "2", "-o", "third.tiff")
    assert (result.code, result.err) == (0, "")
    third = read_picture(Path("third.tiff").read_bytes()).picture
    frame = read_frames(ANIMATIONS["png"])[2]
    np.testing.assert_array_equal(third.samples, frame.samples)
    result = cli.decompress("a-png.lmz", "-o", "all.tiff")
    assert (result.code, result.err) == (
        1,
        "lmzip: a-png.lmz: 4 frames of png come back as nothing else\n"
        "hint: --only NUMBER restores one of them, in any format\n",
    )


def test_an_archive_holds_animations_beside_images(cli):
    write_animations("in")
    write_image(Path("in/plain.png"))
    make_frames()[0].save("in/one.gif")
    assert cli.compress("-r", "in", "--archive", "-o", "all.lmz").code == 0
    result = cli("verify", "all.lmz", "--model", cli.model, "--against", "in")
    assert (result.code, result.err) == (0, "")
    result = cli.decompress("all.lmz", "-o", "out")
    assert (result.code, result.err) == (0, "")
    assert sorted(os.listdir("out")) == sorted(os.listdir("in"))
    for name in os.listdir("in"):
        assert show(Path("out", name).read_bytes()) == show(Path("in", name).read_bytes())
    assert cli.decompress("all.lmz", "--only", "a-gif.gif", "-o", "b.gif").code == 0
    assert show(Path("b.gif").read_bytes()) == show(ANIMATIONS["gif"])
    assert cli.decompress("all.lmz", "--only", "a-gif.gif#2", "-o", "b.png").code == 0
    assert cli.decompress("all.lmz", "--only", "one.gif", "-o", "one.png").code == 0


def test_a_frame_may_not_take_the_name_of_a_file(cli):
    write_animations()
    Path("a-gif.gif#2").write_bytes(ANIMATIONS["gif"])
    result = cli.compress("a-gif.gif#2", "a-gif.gif", "--archive", "-o", "all.lmz")
    assert result.code == 1
    assert "already has the name a-gif.gif#2 in the archive" in result.err


def test_frames_are_compared_with_their_file(cli):
    write_animations()
    assert cli.compress("a-gif.gif").code == 0
    verify = ("verify", "a-gif.lmz", "--model", cli.model, "--against")
    assert cli(*verify, "a-gif.gif").code == 0
    slower = bytearray(ANIMATIONS["gif"])
    slower[slower.index(b"\x21\xf9\4") + 4] += 9  # the time of the first frame
    Path("slower.gif").write_bytes(slower)
    result = cli(*verify, "slower.gif")
    assert (result.code, result.err) == (
        3, "lmzip: a-gif.lmz: frame 0 is shown in another way than in slower.gif\n"
    )  # fmt: skip
    assert cli(*verify, "a-png.png").code == 3


def test_a_run_over_animations_goes_on(cli):
    write_animations("in")
    assert cli.compress("-r", "in").code == 0
    result = cli.compress("-r", "in", "--skip-existing", "-v")
    assert result.code == 0
    assert result.err.count("is there already") == 4
    Path("in/a-gif.lmz").write_bytes(Path("in/a-png.lmz").read_bytes())
    assert "is not this image" in cli.compress("-r", "in", "--skip-existing").err


def test_stripped_animations_keep_their_timing(cli):
    Path("x.gif").write_bytes(ANIMATIONS["gif"])
    assert cli.compress("--strip", "x.gif").code == 0
    assert cli.decompress("x.lmz", "-o", "y.gif").code == 0
    back = Path("y.gif").read_bytes()
    assert b"made by hand" not in back
    assert [shown[:4] for shown in show(back)] == [shown[:4] for shown in show(ANIMATIONS["gif"])]


def test_a_damaged_animation_is_salvaged_frame_by_frame(cli):
    Path("x.tiff").write_bytes(ANIMATIONS["tiff-of-several-modes"])
    assert cli.compress("x.tiff").code == 0
    data = bytearray(Path("x.lmz").read_bytes())
    data[30] ^= 0xFF
    Path("x.lmz").write_bytes(data)
    result = cli.decompress("x.lmz", "-o", "y.tiff")
    assert result.code == 3
    assert not Path("y.tiff").exists()
    result = cli.decompress("--salvage", "x.lmz", "-o", "out")
    assert result.code == 3
    assert "restored frame by frame" in result.err
    assert len(os.listdir("out")) == 3


def test_json_counts_frames(cli):
    Path("x.gif").write_bytes(ANIMATIONS["gif"])
    cli.compress("x.gif")
    document = json.loads(cli.decompress("--json", "x.lmz", "-o", "y.gif").out)
    assert document["files"][0]["frames"] == 4


def test_a_region_of_a_gif(cli):
    """A part is a picture of its own: the rest of the file does not fit around it."""
    make_frames()[0].save("x.gif")
    assert cli.compress("x.gif").code == 0
    result = cli.decompress("x.lmz", "--region", "2,3,10,12", "-o", "y.gif")
    assert (result.code, result.err) == (0, "")
    with Image.open("x.gif") as whole, Image.open("y.gif") as part:
        assert part.convert("RGB").tobytes() == whole.convert("RGB").crop((3, 2, 15, 12)).tobytes()


def test_hostile_frames_are_damage(cli):
    frames = read_frames(ANIMATIONS["gif"])
    block = frames[0].metadata["FRMS"]
    for wrong in (b"", b"GIF_\1\0\0\0GIF", block[:4] + b"\xff" * 4, block[:8] + b"abc"):
        first = replace(frames[0], metadata={**frames[0].metadata, "FRMS": wrong})
        named = ((None, frame) for frame in [first, *frames[1:]])
        Path("x.lmz").write_bytes(lmzip.pack_archive(named, gather_metadata=True))
        result = cli.decompress("x.lmz", "-o", "y.gif", "-f")
        assert result.code == 3, result.err
        assert "internal" not in result.err
        assert not Path("y.gif").exists()


def test_limits_hold_for_frames(cli):
    Path("x.gif").write_bytes(ANIMATIONS["gif"])
    assert cli.compress("x.gif").code == 0
    for command in (["compress", "x.gif", "-f"], ["decompress", "x.lmz", "-o", "y.gif"]):
        result = cli(*command, "--max-images", "3")
        assert (result.code, Path("y.gif").exists()) == (1, False)
        assert "4 images, the limit is 3: --max-images" in result.err
        result = cli(*command, "--max-pixels", "800")
        assert (result.code, Path("y.gif").exists()) == (1, False)
        assert "the limit is 800: --max-pixels" in result.err


LOSSES = {
    "x.png": (lambda data: data + b"more", "4 bytes after the end of the image"),
    "x.ppm": (lambda data: data.replace(b"P6\n", b"P6\n# by hand\n"), "comments"),
    "y.ppm": (lambda data: data + data, "bytes after the end of the image"),
    "x.webp": (lambda data: _with_chunk(data, b"priv"), "chunks priv"),
    "x.bmp": (lambda data: data + b"m", "1 byte after the end of the image"),
    "y.bmp": (lambda _: _make_bmp(40, 0, alpha=9), "the fourth byte of its pixels"),
    "z.bmp": (lambda _: _make_bmp(56, 3, alpha=9), "the fourth byte of its pixels"),
    "profile.bmp": (lambda _: _make_bmp(124, 0, profile=b"colours"), "the colour profile"),
    "x.qoi": (lambda data: data + b"more", "4 bytes after the end of the image"),
    "y.qoi": (lambda data: data[:13] + b"\1" + data[14:], "that its colours are linear"),
}


def _make_bmp(size: int, compression: int, *, alpha: int = 0, profile: bytes = b"") -> bytes:
    """Return a picture of 32 bits a pixel, in which no header says what the last 8 are."""
    fields = (size, 18, 12, 1, 32, compression, 0, 0, 0, 0, 0)
    masks = (0xFF0000, 0xFF00, 0xFF, 0) if compression else (0, 0, 0, 0)
    header = struct.pack("<IiiHHIIiiII4I", *fields, *masks)[:size].ljust(size, b"\0")
    if profile:
        header = header[:56] + b"DEBM" + bytes(52)
        header += struct.pack("<III", size + 18 * 12 * 4, len(profile), 0)
    pixels = make_picture("RGBA").samples.copy()
    pixels[..., 3] = alpha
    start = struct.pack("<IHHI", 0, 0, 0, 14 + size)
    return b"BM" + start + header + pixels.tobytes() + profile


def test_bytes_without_a_meaning_are_no_loss_if_they_are_zero(cli):
    for number, header in enumerate(((40, 0), (56, 3), (108, 3))):
        Path(f"{number}.bmp").write_bytes(_make_bmp(*header))
        result = cli.compress("--rm", f"{number}.bmp")
        assert (result.code, result.err) == (0, "")
    assert sorted(os.listdir()) == ["0.lmz", "1.lmz", "2.lmz"]


def _with_chunk(data: bytes, kind: bytes) -> bytes:
    body = data[8:] + kind + (4).to_bytes(4, "little") + b"abcd"
    return b"RIFF" + len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize("name", LOSSES)
def test_what_cannot_be_kept_is_named_and_keeps_the_input(cli, name):
    change, loss = LOSSES[name]
    write_image(Path(name))
    Path(name).write_bytes(change(Path(name).read_bytes()))
    result = cli.compress("--rm", name)
    assert result.code == 0
    assert f"{name}: warning: not kept: " in result.err
    assert loss in result.err
    assert f"{name}: warning: not deleted: not all of it is in the output" in result.err
    assert Path(name).exists()
    with Image.open(name) as image:
        image.load()
