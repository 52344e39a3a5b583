"""Files are written whole or not at all, whatever happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmzip.whole_files import replace_file, temporary_name


def write(path: Path, data: bytes, *, overwrite: bool = True) -> None:
    with replace_file(path, overwrite=overwrite) as file:
        file.write(data)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with replace_file(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    with replace_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_crash_while_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="Input/output error") as caught:
                write(target, b"new")
        assert caught.value.filename == str(target)
        assert target.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"of someone else")
    if not links:

        def refuse(*_: object) -> None:
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FileExistsError):
        write(target, b"new", overwrite=False)
    assert target.read_bytes() == b"of someone else"
    write(tmp_path / "y", b"new", overwrite=False)
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / temporary_name("x")
    left.write_bytes(b"half")
    write(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert left.read_bytes() == b"half"  # its writer may be alive, in another container


def test_several_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """Names for the meantime had the number of the process: one writer could take another's."""
    with replace_file(tmp_path / "x") as one:
        one.write(b"one")
        with replace_file(tmp_path / "x") as other:
            other.write(b"other")
        assert (tmp_path / "x").read_bytes() == b"other"
    assert (tmp_path / "x").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["x"]
