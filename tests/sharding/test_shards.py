"""lmzip compress --shard on this machine: whole sets, interrupted ones, and those that differ."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli_runner import Cli, Result, make_picture, write_image
from support.networks import compact_network, write_model

import lmzip
from lmzip.cli.console import format_size
from lmzip.sharding import (
    Here,
    Listed,
    Made,
    Manifest,
    Recipe,
    open_run,
    plan_shards,
    tasks,
)
from lmzip.sharding.plan import ShardTask

COUNT, SIZE = 7, 3


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(COUNT):
        write_image(tmp_path / f"photos/{number % 2}/{number}.png", make_picture(seed=number))
    return tmp_path / "photos"


def shard(cli: Cli, target: str, *options: object) -> Result:
    return cli.compress("--archive", "-r", "photos", "-o", target, "--shard", SIZE, *options)


def contents(folder: str) -> dict[str, bytes]:
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.usefixtures("photos")
def test_shards_hold_all_pictures_in_sequence(cli: Cli) -> None:
    result = shard(cli, "set", "--json")
    assert result.code == 0
    total = json.loads(result.out)["total"]
    assert (total["shards"], total["planned"], total["images"]) == (3, 3, COUNT)
    names = ["manifest.json", "shard-000000.lmz", "shard-000001.lmz", "shard-000002.lmz"]
    assert list(contents("set")) == names
    stored: list[str] = []
    for name in names[1:]:
        with lmzip.open_archive(Path("set", name), model=cli.model) as archive:
            stored += archive.names or []
            for inside, samples in zip(archive.names or [], archive, strict=True):
                seed = int(Path(inside).stem)
                assert np.array_equal(samples, make_picture(seed=seed).samples)
    assert stored == ["0/0.png", "0/2.png", "0/4.png", "0/6.png", "1/1.png", "1/3.png", "1/5.png"]
    assert cli("verify", "--model", cli.model, "set/manifest.json").code == 0


@pytest.mark.usefixtures("photos")
def test_info_describes_a_manifest(cli: Cli) -> None:
    total = json.loads(shard(cli, "set", "--json").out)["total"]
    result = cli("info", "set/manifest.json")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "set/manifest.json",
        "  shards    3 archives, 7 images",
        f"  files     {format_size(total['bytes'])} ({total['bytes']} bytes), raw 4.5 kB",
        f"  bits      {total['bpd']:.3f} bpd",
        "  checked   by lmzip verify set/manifest.json",
    ]
    Path("set/shard-000000.lmz").write_bytes(b"cut")
    Path("set/shard-000001.lmz").unlink()
    missing = ["shard-000000.lmz", "shard-000001.lmz"]
    assert (
        f"  missing   2 of 3 shards, or cut: {', '.join(missing)}"
        in cli("info", "set/manifest.json").out
    )
    (entry,) = json.loads(cli("info", "--json", "set/manifest.json").out)["files"]
    assert entry["missing"] == missing
    assert (entry["images"], entry["bytes"]) == (COUNT, total["bytes"])
    Path("set/manifest.json").write_text("{}")
    assert "not a manifest of shards" in cli("info", "set/manifest.json").err


@pytest.mark.usefixtures("photos")
def test_a_shard_is_the_archive_of_its_pictures(cli: Cli) -> None:
    assert shard(cli, "set").code == 0
    for number in range(4):
        target = Path(f"part/0/{2 * number}.png")
        target.parent.mkdir(parents=True, exist_ok=True)
        if number < SIZE:
            shutil.copy2(Path("photos", "0", f"{2 * number}.png"), target)
    assert cli.compress("--archive", "-r", "part", "-o", "part.lmz").code == 0
    assert Path("part.lmz").read_bytes() == Path("set/shard-000000.lmz").read_bytes()


@pytest.mark.usefixtures("photos")
def test_an_interrupted_run_is_completed_by_the_same_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shard(cli, "whole").code == 0

    class Killed(BaseException):
        pass

    made: list[str] = []
    write = tasks.write_shard

    def die_at_the_second(task: ShardTask) -> tasks.Made:
        if len(made) == 1:
            raise Killed
        made.append(task.name)
        return write(task)

    with monkeypatch.context() as patch:
        patch.setattr("lmzip.sharding.runs.write_shard", die_at_the_second)
        with pytest.raises(Killed):
            shard(cli, "set")
    assert list(contents("set")) == [
        "shard-000000.lmz",
        "unfinished/listing.jsonl",
        "unfinished/shard-000000.lmz.json",
    ]
    Path("set/.shard-000001.lmz.host-1.lmzip-tmp").write_bytes(b"half")
    first = Path("set/shard-000000.lmz").stat()
    result = shard(cli, "set")
    assert result.code == 0
    assert result.err == "lmzip: 1 of 3 shards are there already\n"
    assert "shard-000000" not in result.out
    assert contents("set") == contents("whole")
    assert Path("set/shard-000000.lmz").stat().st_ino == first.st_ino  # not made again
    again = shard(cli, "set")
    assert "3 of 3 shards are there already" in again.err


@pytest.mark.usefixtures("photos")
def test_a_shard_that_is_missing_or_cut_is_made_again(cli: Cli) -> None:
    assert shard(cli, "set").code == 0
    whole = contents("set")
    Path("set/shard-000001.lmz").unlink()
    Path("set/shard-000002.lmz").write_bytes(whole["shard-000002.lmz"][:-5])
    damaged = cli("verify", "--model", cli.model, "set/manifest.json")
    assert damaged.code == 3
    assert "shard-000001.lmz: No such file" in damaged.err
    result = shard(cli, "set")
    assert (result.code, result.err) == (0, "lmzip: 1 of 3 shards are there already\n")
    assert contents("set") == whole


def test_tasks_mean_the_same_in_another_folder(
    cli: Cli, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has a working folder of its own."""
    from lmzip.storage import find_files

    shutil.copy(cli.model, "mine.safetensors")
    recipe = Recipe(lmzip.Options(model="mine.safetensors"))
    pictures = [Listed(0, file) for file in find_files(photos)]
    plan = plan_shards([photos.name], pictures, "set", COUNT, recipe)
    Path("set/unfinished").mkdir(parents=True)
    plan.write_listing()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = tasks.write_shard(plan.tasks[0]).shard
    assert made.images == COUNT
    assert (tmp_path / "set" / made.name).stat().st_size == made.size


def test_what_is_in_a_model_file_counts_and_not_where_it_lies(tmp_path: Path) -> None:
    def identify(path: Path) -> str:
        return Recipe(lmzip.Options(model=str(path))).identity

    path = write_model(compact_network(), tmp_path)
    before, copy = identify(path), tmp_path / "copy.safetensors"
    shutil.copy(path, copy)
    assert identify(copy) == before
    write_model(compact_network(channels=1), tmp_path)
    assert identify(path) != before


@pytest.mark.parametrize("store", ["", "memory://"])
@pytest.mark.parametrize("state", ["named", "recorded", "completed"])
def test_a_shard_that_another_worker_made_meanwhile_is_not_written_again(
    state: str, store: str, cli: Cli, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether that one has got its name, its record, or is part of a set that is complete."""
    if store:
        pytest.importorskip("upath")
    from lmzip.storage import find_files, to_path, write_whole

    target = f"{store}{state}"
    recipe = Recipe(lmzip.Options(model=str(cli.model)))
    pictures = [Listed(0, file) for file in find_files(photos)]
    plan = plan_shards([str(photos)], pictures, target, COUNT, recipe)
    (task,) = plan.tasks
    pack, written = lmzip.pack_archive, list[str]()

    def record_writing(path: Path, data: bytes, *, overwrite: bool = True) -> None:
        write_whole(path, data, overwrite=overwrite)  # raises if it is refused
        written.append(path.name)

    def come_second(*arguments: Any) -> bytes:
        """While this worker packs, another one makes the whole shard."""
        monkeypatch.setattr(tasks, "pack_archive", pack)
        if state == "completed":
            assert all(isinstance(made, Made) for _, made in run.make(Here()))
        else:
            tasks.write_shard(task)
        if state == "named":
            task.record.unlink()
        written.clear()
        data = pack(*arguments)
        # What is learnt from pictures differs from time to time, and so do the bytes.
        return data if state == "named" else data + b"of another"

    to_path(target).mkdir(parents=True, exist_ok=True)
    run = open_run(plan, target, recipe.limits)
    task.record.parent.mkdir(parents=True, exist_ok=True)
    plan.write_listing()
    monkeypatch.setattr(tasks, "write_whole", record_writing)
    monkeypatch.setattr(tasks, "pack_archive", come_second)
    monkeypatch.setattr(tasks, "_compare", lambda *_: None)
    made = tasks.write_shard(task).shard
    assert written == ([task.record.name] if state == "named" else [])
    assert made.sha256 == hashlib.sha256(task.path.read_bytes()).hexdigest()
    left = {file.relative for file in find_files(to_path(target))}
    if state == "completed":
        assert left == {"manifest.json", task.name}
    else:
        assert left == {task.name, "unfinished/listing.jsonl", f"unfinished/{task.name}.json"}


@pytest.mark.parametrize("completed", [True, False])
def test_a_worker_of_an_earlier_plan_writes_nothing(
    completed: bool, cli: Cli, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client was lost, and the set is made anew from other pictures, or has been."""
    from lmzip.storage import find_files

    recipe = Recipe(lmzip.Options(model=str(cli.model)))
    pictures = [Listed(0, file) for file in find_files(photos)]
    plan = plan_shards([str(photos)], pictures, "set", SIZE, recipe)
    pack, left = lmzip.pack_archive, dict[str, bytes]()

    def come_late(*arguments: Any) -> bytes:
        monkeypatch.setattr(tasks, "pack_archive", pack)
        if completed:
            (photos / "1/5.png").unlink()  # there is no third shard then
            assert shard(cli, "set", "-f").code == 0
        else:
            plan_shards([str(photos)], pictures[1:], "set", SIZE, recipe).write_listing()
        left.update(contents("set"))
        return pack(*arguments)

    Path("set/unfinished").mkdir(parents=True)
    plan.write_listing()
    monkeypatch.setattr(tasks, "pack_archive", come_late)
    with pytest.raises((FileNotFoundError, lmzip.InputError), match=r"unfinished/listing\.jsonl"):
        tasks.write_shard(plan.tasks[2])
    assert contents("set") == left
    assert completed == ("manifest.json" in left)


def test_other_pictures_or_options_are_noticed(cli: Cli, photos: Path) -> None:
    assert shard(cli, "set").code == 0
    whole = contents("set")
    refused = shard(cli, "set", "--strip")
    assert refused.code == 1
    assert "set holds shard-000000.lmz of other pictures or options: -f replaces it" in refused.err
    write_image(photos / "1/9.png", make_picture(seed=9))
    assert shard(cli, "set").code == 1
    assert contents("set") == whole
    assert shard(cli, "set", "-f").code == 0
    assert Manifest.from_json(contents("set")["manifest.json"]).images == COUNT + 1
    (photos / "1/9.png").unlink()
    for number in range(5, COUNT):
        next(photos.rglob(f"{number}.png")).unlink()
    assert shard(cli, "set", "-f").code == 0  # fewer shards: the third one goes
    assert list(contents("set")) == ["manifest.json", "shard-000000.lmz", "shard-000001.lmz"]


def test_a_picture_that_cannot_be_kept_is_named_and_tried_again(cli: Cli, photos: Path) -> None:
    (photos / "1/8.png").write_bytes(b"\x89PNG nothing")
    result = shard(cli, "set")
    assert result.code == 1
    assert "lmzip: 1/8.png: " in result.err
    manifest = Manifest.from_json(contents("set")["manifest.json"])
    assert [len(shard.failures) for shard in manifest.shards] == [0, 0, 1]
    assert manifest.images == COUNT
    again = shard(cli, "set")
    assert again.code == 1
    assert "2 of 3 shards are there already" in again.err


@pytest.mark.usefixtures("photos")
def test_what_shards_cannot_do_is_a_usage_error(cli: Cli) -> None:
    Path("file").write_bytes(b"")
    for arguments in (
        ["-r", "photos", "-o", "set", "--shard", 3],
        ["--archive", "-r", "photos", "--shard", 3],
        ["--archive", "-r", "photos", "-o", "set", "--scheduler", "tcp://127.0.0.1:1"],
        ["--archive", "-r", "photos", "-o", "set", "--shard", 3, "--rm"],
        ["--archive", "-r", "photos", "-o", "file", "--shard", 3],
    ):
        assert cli.compress(*arguments).code == 2, arguments
    assert not Path("set").exists()


def test_shards_in_a_store(cli: Cli, photos: Path) -> None:
    pytest.importorskip("upath")
    from lmzip.storage import find_files, to_path, write_whole

    for file in find_files(photos):
        path = to_path("memory://shards/photos") / file.relative
        write_whole(path, (photos / file.relative).read_bytes())
    command = ["--archive", "-r", "memory://shards/photos", "-o", "memory://shards/set"]
    assert cli.compress(*command, "--shard", SIZE).code == 0
    to_path("memory://shards/set/shard-000001.lmz").unlink()
    again = cli.compress(*command, "--shard", SIZE)
    assert (again.code, again.err) == (0, "lmzip: 2 of 3 shards are there already\n")
    names = [file.relative for file in find_files(to_path("memory://shards/set"))]
    assert names == ["manifest.json"] + [f"shard-{number:06d}.lmz" for number in range(3)]
    assert cli("verify", "--model", cli.model, "memory://shards/set/manifest.json").code == 0
