"""Which file a name means, and which name a file comes back to."""

import os
import subprocess
from pathlib import Path

import numpy as np
from support.cli_runner import start, write_image

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
