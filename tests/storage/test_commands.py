"""The commands on addresses: sources and targets in a store, and what its faults leave behind."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import Cli, make_picture, write_image
from support.object_store import CUT, REFUSE, ObjectStore

from lmzip.formats import read_picture
from lmzip.storage import find_files, to_path, write_whole


@pytest.fixture
def photos(tmp_path: Path) -> dict[str, np.ndarray]:
    return {
        f"photos/{number}.png": write_image(
            tmp_path / f"photos/{number}.png", make_picture(seed=number)
        ).samples
        for number in range(3)
    }


def upload(folder: str, to: str) -> None:
    for file in find_files(Path(folder)):
        write_whole(to_path(to) / file.relative, Path(folder, file.relative).read_bytes())


def names(address: str) -> list[str]:
    return [file.relative for file in find_files(to_path(address))]


@pytest.mark.usefixtures("store")
def test_a_folder_in_a_store_goes_there_and_back(cli: Cli, photos: dict[str, np.ndarray]) -> None:
    upload("photos", "s3://bucket/photos")
    result = cli.compress("-r", "s3://bucket/photos", "-o", "s3://bucket/packed")
    assert (result.code, result.err) == (0, "")
    assert names("s3://bucket/packed") == ["0.lmz", "1.lmz", "2.lmz"]
    assert cli("verify", "--model", cli.model, "-r", "s3://bucket/packed").code == 0
    assert cli.decompress("-r", "s3://bucket/packed", "-o", "back").code == 0
    for name, samples in photos.items():
        restored = read_picture(Path("back", Path(name).name).read_bytes()).picture
        assert np.array_equal(restored.samples, samples)
    again = cli.compress("-r", "s3://bucket/photos", "-o", "s3://bucket/packed")
    assert again.code == 1
    assert "s3://bucket/packed/0.lmz already exists" in again.err
    assert cli.compress("-r", "s3://bucket/photos", "-o", "s3://bucket/packed", "-f").code == 0


def test_one_image_of_a_remote_archive_is_fetched_alone(
    store: ObjectStore, cli: Cli, photos: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 12 * 18)  # an image a chunk
    assert cli.compress("--archive", "-r", "photos", "-o", "s3://bucket/all.lmz").code == 0
    size = to_path("s3://bucket/all.lmz").stat().st_size
    store.fetched()
    result = cli.decompress("s3://bucket/all.lmz", "--only", "1.png", "-o", "one.png")
    assert (result.code, result.err) == (0, "")
    assert 0 < store.fetched() < 0.6 * size
    restored = read_picture(Path("one.png").read_bytes()).picture
    assert np.array_equal(restored.samples, photos["photos/1.png"])
    listed = json.loads(cli("info", "--list", "--json", "s3://bucket/all.lmz").out)
    assert [image["name"] for image in listed["files"][0]["images"]] == ["0.png", "1.png", "2.png"]
    assert store.fetched() < 0.5 * size
    assert cli.decompress("s3://bucket/all.lmz").code == 0
    assert names("s3://bucket/all") == ["0.png", "1.png", "2.png"]


@pytest.mark.usefixtures("photos")
def test_a_zip_file_is_a_source(cli: Cli) -> None:
    with zipfile.ZipFile("photos.zip", "w") as file:
        for found in find_files(Path("photos")):
            file.write(Path("photos", found.relative), f"inside/{found.relative}")
    result = cli.compress("-r", "zip://inside::photos.zip", "-o", "memory://from-zip")
    assert (result.code, result.err) == (0, "")
    assert names("memory://from-zip") == ["0.lmz", "1.lmz", "2.lmz"]
    refused = cli.compress("photos/0.png", "-o", "zip://0.lmz::photos.zip")
    assert refused.code == 1
    assert "read, not written" in refused.err


def test_inputs_are_deleted_once_their_outputs_are_safe(
    store: ObjectStore, cli: Cli, photos: dict[str, np.ndarray]
) -> None:
    upload("photos", "s3://bucket/photos")
    store.faults += [("PUT", REFUSE)]  # of the first output
    result = cli.compress("--rm", "-r", "s3://bucket/photos")
    assert result.code == 1
    assert (
        result.err
        == "lmzip: s3://bucket/photos/0.png: s3://bucket/photos/0.lmz: Permission denied\n"
    )
    assert names("s3://bucket/photos") == ["0.png", "1.lmz", "2.lmz"]


def test_a_cut_connection_loses_nothing(
    store: ObjectStore, cli: Cli, photos: dict[str, np.ndarray]
) -> None:
    upload("photos", "s3://bucket/photos")
    store.faults += [("GET", CUT)]
    assert cli.compress("s3://bucket/photos/1.png", "-o", "1.lmz").code == 0  # tried again
    assert not store.faults
    store.faults += [("GET", CUT)] * 50
    result = cli.compress("--rm", "s3://bucket/photos/0.png", "-o", "0.lmz")
    store.faults.clear()
    assert result.code == 1
    assert result.err.startswith("lmzip: s3://bucket/photos/0.png: ")
    assert result.err.count("\n") == 1
    assert not Path("0.lmz").exists()
    assert names("s3://bucket/photos") == ["0.png", "1.png", "2.png"]


def test_shards_go_on_after_a_fault(
    store: ObjectStore, cli: Cli, photos: dict[str, np.ndarray]
) -> None:
    upload("photos", "s3://bucket/photos")
    command = ["--archive", "-r", "s3://bucket/photos", "-o", "s3://bucket/set", "--shard", 1]
    store.faults += [("PUT", REFUSE)] * 1  # of the listing
    assert cli.compress(*command).code == 1
    store.faults += [("GET", REFUSE)]  # of the first task's part of the listing
    result = cli.compress(*command)
    assert result.code == 1
    assert "s3://bucket/set/shard-000000.lmz: " in result.err
    assert "Permission denied" in result.err
    again = cli.compress(*command)
    assert (again.code, again.err) == (0, "lmzip: 2 of 3 shards are there already\n")
    assert names("s3://bucket/set") == ["manifest.json", *(f"shard-{n:06d}.lmz" for n in range(3))]


def test_what_is_not_there_is_named(store: ObjectStore, cli: Cli) -> None:
    result = cli("info", "s3://bucket/none.lmz")
    assert result.code == 1
    assert result.err == "lmzip: s3://bucket/none.lmz: No such file or directory\n"
    unknown = cli("info", "nonsense://x.lmz")
    assert unknown.code == 1
    assert unknown.err == "lmzip: nonsense://x.lmz: Protocol not known: nonsense\n"
