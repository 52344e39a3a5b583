"""Which file a name means, and which name a file comes back to."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.animations import make_animations
from support.cli_runner import make_picture, start, write_image

import lmzip
from lmzip.container.image_reader import decompress_picture


def test_a_file_may_be_called_minus(cli):
    """Only a bare "-" is stdin."""
    picture = write_image(Path("a.png"))
    os.rename("a.png", "-")
    process = start("compress", "--rm", "./-", "--model", cli.model, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err, out[:2]) == (0, b"", b"- ")
    assert os.listdir() == ["-.lmz"]
    restored = decompress_picture(Path("-.lmz").read_bytes(), model=cli.model)
    np.testing.assert_array_equal(restored.samples, picture.samples)


def test_a_file_called_minus_is_compared(cli):
    write_image(Path("a.png"))
    assert cli.compress("a.png").code == 0
    os.rename("a.png", "-")
    verify = ("verify", "--model", cli.model)
    assert cli(*verify, "a.lmz", "--against", "./-").code == 0
    assert cli.compress("--archive", "./-", "-o", "all.lmz").code == 0
    with lmzip.open_archive("all.lmz", model=cli.model) as archive:
        assert archive.names == ["-"]
    assert cli(*verify, "all.lmz", "--against", ".").code == 0
    with open("-", "rb") as file:
        process = start(*verify, "a.lmz", "--against", "-", stdin=file)
        process.communicate(timeout=100)
    assert process.returncode == 0


@pytest.mark.parametrize("mode", ["RGB", "L16", "CMYK"])
@pytest.mark.parametrize("ending", [".tif", ".tiff"])
def test_tiff_files_keep_their_ending(cli, mode, ending):
    write_image(Path(f"t{ending}"), make_picture(mode))
    assert cli.compress(f"t{ending}").code == 0
    os.unlink(f"t{ending}")
    result = cli.decompress("--rm", "t.lmz")
    assert (result.code, result.err) == (0, "")
    assert os.listdir() == [f"t{ending}"]


@pytest.mark.parametrize(
    ("name", "written"),
    [("d.tif", ".tiff"), ("d.tiff", ".tiff"), ("D.TIF", ".tiff"), ("d.pnm", ".ppm")],
)
def test_the_name_of_a_compressed_file_has_the_ending(cli, name, written):
    """Also if the file only knows its format, as those did that were made before."""
    write_image(Path(f"d{written}"))
    assert cli.compress(f"d{written}", "-o", f"{name}.lmz").code == 0
    os.unlink(f"d{written}")
    assert cli.decompress("--rm", f"{name}.lmz").code == 0
    assert os.listdir() == [name]


def test_a_tiff_file_beside_a_png_file_comes_back(cli):
    write_image(Path("in/d16.tif"), make_picture("L16"))
    write_image(Path("in/d16.png"))
    write_image(Path("in/d16.bmp"))
    assert cli.compress("-r", "in", "-o", "packed").code == 0
    assert cli.decompress("-r", "packed", "-o", "out").code == 0
    assert sorted(os.listdir("out")) == ["d16.bmp", "d16.png", "d16.tif"]


@pytest.mark.parametrize(("kind", "name"), [("png", "a.apng"), ("tiff", "a.tif")])
def test_frames_come_back_to_the_ending_of_their_name(cli, kind, name):
    Path(name).write_bytes(make_animations()[kind])
    assert cli.compress(name, "-o", f"{name}.lmz").code == 0
    os.unlink(name)
    assert cli.decompress("--rm", f"{name}.lmz").code == 0
    assert os.listdir() == [name]
