"""Files in stores are written whole or not at all."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.object_store import REFUSE, ObjectStore

import lmzip
from lmzip.storage import find_files, open_whole, to_path, write_whole


def test_an_object_is_not_overwritten_unless_wanted(store: ObjectStore) -> None:
    path = to_path("s3://bucket/a/b")
    write_whole(path, b"one", overwrite=False)
    with pytest.raises(FileExistsError, match="s3://bucket/a/b"):
        write_whole(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"


def test_a_refused_object_leaves_what_was_there(store: ObjectStore) -> None:
    path = to_path("s3://bucket/a/b")
    write_whole(path, b"one")
    store.faults += [("PUT", REFUSE)]
    with pytest.raises(PermissionError, match="s3://bucket/a/b"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"


@pytest.mark.parametrize("address", ["s3://bucket/a/b", "memory://whole/b", "b"])
def test_a_file_that_is_written_in_parts_appears_when_it_is_whole(
    store: ObjectStore, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = to_path(address)
    for data in (b"first", b"second"):
        with open_whole(path) as file:
            file.write(data[:3])
            file.write(data[3:])
        assert path.read_bytes() == data
    with pytest.raises(ZeroDivisionError), open_whole(path) as file:
        file.write(b"third" * (1 // 0))
    assert path.read_bytes() == b"second"
    if address.startswith("s3"):
        store.faults += [("PUT", REFUSE)]
        with pytest.raises(PermissionError, match=address), open_whole(path) as file:
            file.write(b"third")
        assert path.read_bytes() == b"second"


def test_where_writing_is_gradual_a_temporary_name_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lmzip.storage.writing._OBJECT_STORES", set())
    folder: Any = to_path("memory://gradual")
    seen: list[str] = []
    move = type(folder.fs).mv

    def watch(self: Any, source: str, target: str, **options: Any) -> None:
        seen.extend(file.relative for file in find_files(folder))
        move(self, source, target, **options)

    monkeypatch.setattr(type(folder.fs), "mv", watch)
    write_whole(folder / "x.lmz", b"whole")
    assert len(seen) == 1
    assert seen[0].startswith(".x.lmz.")
    assert [file.relative for file in find_files(folder)] == ["x.lmz"]
    with pytest.raises(FileExistsError):
        write_whole(folder / "x.lmz", b"other", overwrite=False)
    assert (folder / "x.lmz").read_bytes() == b"whole"
    with open_whole(folder / "x.lmz") as file:
        file.write(b"parts")
    assert len(seen) == 3  # the old file, and another temporary one
    assert (folder / "x.lmz").read_bytes() == b"parts"


def test_files_inside_archives_are_not_written(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("a", "1")
    with pytest.raises(lmzip.InputError, match="read, not written"):
        write_whole(to_path(f"zip://b::{tmp_path}/x.zip"), b"2")
