"""Tar files of samples: pictures become .lmz members and come back, and webdataset reads them."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import make_picture, write_image

import lmzip
from lmzip import Options
from lmzip.formats import read_picture
from lmzip.integrations.webdataset import compress_tar, decode_lmz, restore_tar

FAST = Options(effort="fast", threads=1)
SUFFIXES = (".png", ".bmp", ".ppm", ".png")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Return a tar file of pictures and their labels."""
    path = tmp_path / "samples.tar"
    with tarfile.open(path, "w") as file:
        for number, suffix in enumerate(SUFFIXES):
            picture = tmp_path / f"{number}{suffix}"
            write_image(picture, make_picture(seed=number))
            file.add(picture, f"part/{number:04d}{suffix}")
            add_bytes(file, f"part/{number:04d}.cls", str(number).encode())
    return path


def add_bytes(file: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    file.addfile(member, io.BytesIO(data))


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as file:
        return {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]


def test_pictures_become_members_and_come_back(samples: Path, tmp_path: Path) -> None:
    packed, restored = tmp_path / "packed.tar", tmp_path / "restored.tar"
    assert compress_tar(samples, packed, FAST) == 4
    names = [f"part/{n:04d}.{kind}" for n in range(4) for kind in ("lmz", "cls")]
    assert list(members(packed)) == names
    assert sum(map(len, members(packed).values())) < sum(map(len, members(samples).values()))
    assert restore_tar(packed, restored) == 4
    before, after = members(samples), members(restored)
    assert list(before) == list(after)
    for name, data in before.items():
        if name.endswith(".cls"):
            assert after[name] == data
        else:
            one, other = (read_picture(each[name]).picture for each in (before, after))
            assert np.array_equal(one.samples, other.samples)


def test_the_same_file_gives_the_same_bytes(samples: Path, tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        compress_tar(samples, tmp_path / name, FAST)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_a_picture_that_fails_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as file:
        add_bytes(file, "x/1.png", b"\x89PNG nothing")
    with pytest.raises(lmzip.InputError, match=r"bad\.tar: x/1\.png: "):
        compress_tar(tmp_path / "bad.tar", tmp_path / "out.tar", FAST)
    assert not (tmp_path / "out.tar").exists()


def test_what_is_not_kept_is_a_warning(tmp_path: Path) -> None:
    write_image(tmp_path / "x.bmp")
    with tarfile.open(tmp_path / "in.tar", "w") as file:
        add_bytes(file, "a/x.bmp", (tmp_path / "x.bmp").read_bytes() + b"more")
    with pytest.warns(UserWarning, match=r"in\.tar: a/x\.bmp: not kept: 4 bytes") as caught:
        assert compress_tar(tmp_path / "in.tar", tmp_path / "out.tar", FAST) == 1
    assert [Path(warning.filename) for warning in caught] == [Path(__file__)]
    picture = replace(make_picture(), metadata={"FORM": b"bmp", "ICCP": b"profile"})
    with tarfile.open(tmp_path / "packed.tar", "w") as file:
        add_bytes(file, "x.lmz", lmzip.compress_picture(picture, FAST))
    with pytest.warns(UserWarning, match=r"packed\.tar: x\.lmz: bmp has no place for"):
        assert restore_tar(tmp_path / "packed.tar", tmp_path / "out.tar") == 1


def test_one_member_is_in_memory_at_a_time(tmp_path: Path) -> None:
    count, size = 40, 1 << 18
    with tarfile.open(tmp_path / "in.tar", "w") as file:
        for number in range(count):
            add_bytes(file, f"{number}.bin", bytes([number]) * size)
    tracemalloc.start()
    try:
        assert compress_tar(tmp_path / "in.tar", tmp_path / "out.tar", FAST) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * size
    assert members(tmp_path / "out.tar") == members(tmp_path / "in.tar")


def test_errors_name_the_source_and_the_member(tmp_path: Path) -> None:
    write_image(tmp_path / "x.png")
    with tarfile.open(tmp_path / "in.tar", "w") as file:
        file.add(tmp_path / "x.png", "x.png")
    with pytest.raises(lmzip.LimitError, match=r"in\.tar: x\.png: .*--max-pixels"):
        compress_tar(tmp_path / "in.tar", tmp_path / "out.tar", FAST, lmzip.Limits(pixels=9))
    (tmp_path / "in.tar").write_bytes(b"no tar file at all")
    with pytest.raises(OSError, match="ReadError") as caught:
        compress_tar(tmp_path / "in.tar", tmp_path / "out.tar", FAST)
    assert caught.value.filename == str(tmp_path / "in.tar")
    assert not (tmp_path / "out.tar").exists()


def test_names_that_would_collide_are_refused(samples: Path, tmp_path: Path) -> None:
    write_image(tmp_path / "x.png")
    write_image(tmp_path / "x.bmp")
    with tarfile.open(tmp_path / "two.tar", "w") as file:
        file.add(tmp_path / "x.png", "x.png")
        file.add(tmp_path / "x.bmp", "x.bmp")
    with pytest.raises(lmzip.InputError, match=r"two members would be called x\.lmz"):
        compress_tar(tmp_path / "two.tar", tmp_path / "out.tar", FAST)


@pytest.mark.filterwarnings("ignore")  # webdataset's own
def test_webdataset_takes_the_decoder(samples: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    compress_tar(samples, tmp_path / "packed.tar", FAST)
    dataset = webdataset.WebDataset(str(tmp_path / "packed.tar"), shardshuffle=False)
    read = list(dataset.decode(decode_lmz).to_tuple("lmz", "cls"))
    assert [label for _, label in read] == [0, 1, 2, 3]
    for number, (image, _) in enumerate(read):
        assert np.array_equal(image, make_picture(seed=number).samples)


@pytest.mark.filterwarnings("ignore")
def test_webdataset_writes_what_it_reads(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    image = make_picture(seed=3).samples
    with webdataset.TarWriter(str(tmp_path / "new.tar")) as writer:
        writer.write({"__key__": "0", "lmz": lmzip.compress(image, effort="fast"), "txt": "a"})
    (sample,) = webdataset.WebDataset(str(tmp_path / "new.tar"), shardshuffle=False).decode(
        decode_lmz
    )
    assert np.array_equal(sample["lmz"], image)
    assert sample["txt"] == "a"
