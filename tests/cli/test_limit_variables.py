"""Limits that variables set: a wrong one is wrong usage, as a wrong option is."""

from pathlib import Path

import pytest
from support.cli_runner import write_image


@pytest.mark.parametrize(
    "command",
    [
        ["compress"],
        ["decompress"],
        ["info"],
        ["verify"],
        ["inspect"],
        ["complete", "--region", "0,0,2,2", "-o", "out.png"],
    ],
)
def test_a_variable_that_is_no_number(cli, monkeypatch, command):
    write_image(Path("x.png"))
    monkeypatch.setenv("LMZIP_MEMORY", "abc")
    result = cli(*command, "x.png", *(["--model", cli.model] if command != ["info"] else []))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        "lmzip: LMZIP_MEMORY: 'abc' is not a number such as 500, 64K, 20M or 2G\nhint: see 'lmzip"
    )
