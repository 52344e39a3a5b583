"""lmzip compress --skip-existing: what counts as done, and what is said if that is unknown."""

import os
from pathlib import Path

import pytest
from support.animations import make_animations
from support.cli_runner import make_picture, write_image


@pytest.mark.parametrize("name", ["x.png", "x.gif"])
def test_a_file_that_was_touched_is_still_the_same(cli, name):
    if name == "x.png":
        write_image(Path(name))
    else:
        Path(name).write_bytes(make_animations()["gif"])
    assert cli.compress(name).code == 0
    os.utime(name, (1, 1))
    result = cli.compress("--skip-existing", "-v", name)
    assert (result.code, result.err) == (0, f"lmzip: {name}: x.lmz is there already\n")


def test_an_output_of_another_model_may_be_this_image(cli):
    write_image(Path("x.png"))
    assert cli.compress("x.png").code == 0
    result = cli("compress", "--skip-existing", "x.png")
    assert result.code == 4
    assert "is not this image" not in result.err


def test_an_output_beyond_the_limits_is_called_so(cli):
    write_image(Path("x.png"), make_picture(height=20, width=30))
    assert cli.compress("x.png").code == 0
    write_image(Path("x.png"), make_picture(height=5, width=6))
    result = cli.compress("--skip-existing", "--max-pixels", "599", "x.png")
    assert result.code == 1
    assert result.err.startswith("lmzip: x.png: 30x20 pixels, the limit is 599: --max-pixels or ")


@pytest.mark.parametrize("content", [b"", b"no such file", b"\x89LMZ"])
def test_an_output_that_is_damaged_is_not_this_image(cli, content):
    write_image(Path("x.png"))
    Path("x.lmz").write_bytes(content)
    result = cli.compress("--skip-existing", "x.png")
    assert (result.code, result.err) == (
        1, "lmzip: x.png: x.lmz exists and is not this image\nhint: -f overwrites it\n"
    )  # fmt: skip
