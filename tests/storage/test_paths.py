"""Names and addresses, and what becomes of a store's errors."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import lmzip
from lmzip.storage import find_files, is_remote, name_errors, same_file, to_path, version_of


def test_plain_names_are_plain_paths() -> None:
    for name in ("photo.png", "a:b", "./x//y", "/tmp/s3:/x", "C:/x", "aa::b.png", "-"):
        assert not is_remote(name)
        assert to_path(name) == Path(name)
    assert to_path("file:///tmp/a%20b.png") == Path("/tmp/a b.png")
    assert type(to_path("file:///tmp/a")) is type(Path("/tmp"))


def test_addresses_behave_as_paths() -> None:
    path = to_path("memory://folder/photo.png")
    assert is_remote(path)
    assert str(path.with_suffix(".lmz")) == "memory://folder/photo.lmz"
    assert str(path.parent / "other" / Path("x/y.png")) == "memory://folder/other/x/y.png"
    assert is_remote("simplecache::s3://bucket/x.lmz")
    assert str(to_path("zip://a/b.png::s3://bucket/x.zip")) == "zip://a/b.png::s3://bucket/x.zip"


def test_what_nothing_reads_is_an_input_error() -> None:
    with pytest.raises(lmzip.InputError, match="Protocol not known: nonsense"):
        to_path("nonsense://x/y")


def test_errors_of_reading_name_the_file() -> None:
    """The system names a file when it is opened, and not when it is read."""
    with pytest.raises(OSError, match="Input/output error") as caught, name_errors(Path("x.tar")):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.filename == "x.tar"


def test_errors_name_the_address() -> None:
    path = to_path("memory://nothing/here.png")
    with pytest.raises(FileNotFoundError, match="No such file") as caught, name_errors(path):
        path.read_bytes()
    assert caught.value.filename == "memory://nothing/here.png"
    with pytest.raises(OSError, match="KeyError: 'what'") as other, name_errors(path):
        raise KeyError("what")
    assert other.value.filename == str(path)
    with pytest.raises(lmzip.DamagedError), name_errors(path):
        raise lmzip.DamagedError("of the file, not of the store")


def test_same_files_and_versions(tmp_path: Path) -> None:
    one, other = tmp_path / "one", to_path("memory://versions/one")
    one.write_bytes(b"1")
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_bytes(b"1")
    assert same_file(one, tmp_path / "." / "one")
    assert same_file(other, to_path("memory://versions/one"))
    assert not same_file(one, other)
    for path in (one, other):
        before = version_of(path)
        assert version_of(path) == before
        path.write_bytes(b"22")
        assert version_of(path) != before


def test_files_are_listed_in_one_sequence_everywhere(tmp_path: Path) -> None:
    names = ["b/2.png", "b/10.png", "a.png", "b-1/x.png", "b/deep/er/y.png"]
    remote = to_path("memory://listing/of/files")
    for folder in (tmp_path, remote):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"12")
    local = [file.relative for file in find_files(tmp_path)]
    assert local == ["a.png", "b/10.png", "b/2.png", "b/deep/er/y.png", "b-1/x.png"]
    assert [file.relative for file in find_files(remote)] == local
    assert [file.relative for file in find_files(remote / "b")] == [
        "10.png",
        "2.png",
        "deep/er/y.png",
    ]
    assert {file.size for file in find_files(remote)} == {2}
    assert all(file.version for file in find_files(remote))
