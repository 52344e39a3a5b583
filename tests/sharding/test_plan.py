"""Plans: the same pictures always give the same shards, and tasks stay small."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lmzip
from lmzip import Options
from lmzip.sharding import Listed, Manifest, Recipe, Shard, plan_shards
from lmzip.storage import FoundFile

RECIPE = Recipe(Options(model="thumb"))
PICTURES = [Listed(0, FoundFile(f"a\n{n:05d}.png", n, str(n))) for n in range(2500)]
SHARD = Shard("shard-000000.lmz", 3, "a", "c", 10, "00", "ff", 30, 30)


def test_pictures_are_cut_by_count(tmp_path: Path) -> None:
    plan = plan_shards(["/x"], PICTURES, str(tmp_path), 1000, RECIPE)
    assert [task.images for task in plan.tasks] == [1000, 1000, 500]
    assert [task.name for task in plan.tasks][-1] == "shard-000002.lmz"
    assert plan.images == 2500
    assert plan == plan_shards(["/x"], PICTURES, str(tmp_path), 1000, RECIPE)


def test_tasks_find_their_pictures_in_the_listing(tmp_path: Path) -> None:
    plan = plan_shards(["/x"], PICTURES, str(tmp_path), 1000, RECIPE)
    (tmp_path / "unfinished").mkdir()
    plan.write_listing()
    assert plan.tasks[2].read_listing() == PICTURES[2000:]
    assert all(len(pickle.dumps(task)) < 2000 for task in plan.tasks)
    listing = Path(plan.tasks[0].listing)
    listing.write_bytes(listing.read_bytes().replace(b"00003", b"00004"))
    with pytest.raises(lmzip.InputError, match="changed"):
        plan.tasks[0].read_listing()


@pytest.mark.parametrize(
    ("recipe", "same"),
    [
        (Recipe(Options(model="thumb", threads=2), verify=False), True),
        (Recipe(Options(model="photo")), False),
        (Recipe(Options(model="thumb"), strip=True), False),
        (Recipe(Options(model="thumb"), version="0.0"), False),
    ],
)
def test_digests_tell_what_would_change_the_bytes(
    recipe: Recipe, same: bool, tmp_path: Path
) -> None:
    one, other = (
        plan_shards(["/x"], PICTURES, str(tmp_path), 1000, each) for each in (RECIPE, recipe)
    )
    assert (one.tasks[0].digest == other.tasks[0].digest) is same


def test_manifests_come_back() -> None:
    manifest = Manifest((SHARD, SHARD))
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert manifest.images == 6
    assert Shard.from_json(SHARD.to_json()) == SHARD


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"kind": "x", "version": 1}', b"\xff"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(lmzip.FormatError):
        Manifest.from_json(data)
    with pytest.raises(lmzip.FormatError):
        Shard.from_json(data)
