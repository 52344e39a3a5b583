"""lmzip bench: real bytes of the same images, failures in plain sight, and exit code 3 for lies."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.cli_runner import Cli, make_picture, write_image
from support.networks import smooth_images
from support.odd_peer import OddPeer

import lmzip
from lmzip.cli.bench.codecs import LmzipArchive, LmzipFiles, LmzipSettings
from lmzip.cli.bench.data_sets import ArraySet, FolderSet, NpySet, open_set
from lmzip.cli.bench.measure import describe_difference, measure_codec
from lmzip.cli.bench.memory import MemoryMeter
from lmzip.cli.bench.peers import PEERS
from lmzip.errors import InputError
from lmzip.picture import Picture

Pixels = npt.NDArray[np.uint8]

PEERS_ONLY = ("-T", "1", "--no-files", "--no-archive")
ONLY_PNG = (*PEERS_ONLY, "--peers", "png")
COPY = "import shutil, sys; shutil.copy(*sys.argv[1:])"
CORRUPT = (
    "import sys; import numpy as np; from PIL import Image; a = np.array(Image.open(sys.argv[1])); "
    "a[2, 3, 1] ^= 1; Image.fromarray(a).save(sys.argv[2])"
)


@pytest.fixture
def images(tmp_path: Path) -> Pixels:
    """Five small images in images.npy."""
    pixels = smooth_images(5, 12, 16, 3)
    np.save(tmp_path / "images.npy", pixels)
    return pixels


def command(program: str) -> str:
    return f"{sys.executable} -c '{program}' {{input}} {{output:png}}"


def test_sizes_are_those_of_real_files(cli: Cli, images: Pixels) -> None:
    options = ("--model", cli.model, "--peers", "png", "-T", 1, "--json", "--title", "Five images")
    result = cli("bench", "images.npy", *options)
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["data"] == "Five images"
    rows = {row["codec"]: row for row in document["codecs"]}
    assert list(rows) == ["PNG", "lmzip tiny", "lmzip tiny archive"]

    png = [PEERS["png"].encode(Picture(image, make_picture().mode)) for image in images]
    files = [lmzip.compress(image, model=cli.model) for image in images]
    archive = lmzip.compress_batch(images, model=cli.model)
    assert rows["PNG"]["size"] == sum(map(len, png))
    assert rows["lmzip tiny"]["size"] == sum(map(len, files))
    assert rows["lmzip tiny archive"]["size"] == len(archive)
    assert rows["lmzip tiny"]["bpd"] == 8 * sum(map(len, files)) / images.size
    assert rows["lmzip tiny"]["ratio_to_png"] == rows["lmzip tiny"]["size"] / rows["PNG"]["size"]
    under_model = sum(lmzip.read_info(data).model_bpd or 0 for data in files) / len(files)
    assert rows["lmzip tiny"]["model_bpd"] == pytest.approx(under_model)
    assert all(row["exact"] and row["threads"] == 1 for row in rows.values())
    assert all(row["encode_rate"] > 0 and row["decode_rate"] > 0 for row in rows.values())
    assert document["machine"]["processor"]
    assert document["machine"]["versions"]["numpy"] == np.__version__


def test_a_peer_that_changes_a_pixel_is_found_out(cli: Cli, images: Pixels) -> None:
    result = cli(
        "bench", "images.npy", *ONLY_PNG,
        "--command", "honest", command(COPY), command(COPY),
        "--command", "fake", command(COPY), command(CORRUPT),
    )  # fmt: skip
    assert result.code == 3
    assert "fake: #0: not exact: 1 pixel changed, the first at 2,3" in result.err
    assert "fake: 5 of 5 images did not come back" in result.err
    lines = {line.split()[0]: line for line in result.out.splitlines()}
    assert lines["fake"].endswith("NO (5)")
    assert lines["honest"].endswith("yes")
    assert lines["PNG"].endswith("yes")


def test_a_peer_that_fails_on_one_image_has_no_average(cli: Cli) -> None:
    write_image(Path("set/a.png"))
    write_image(Path("set/b.png"), make_picture("L16"))
    result = cli("bench", "set", "--peers", "png,webp4", *PEERS_ONLY, "--json")
    assert result.code == 0
    png, webp = json.loads(result.out)["codecs"]
    assert png["exact"]
    assert png["size"] > 0
    assert webp["failures"] == [{"image": "b.png", "reason": "cannot hold L16"}]
    assert not webp["exact"]
    assert [webp[key] for key in ("size", "bpd", "ratio_to_png", "encode_rate")] == [None] * 4
    assert "WebP m4: b.png: warning: fails: cannot hold L16" in result.err

    shown = cli("bench", "set", "--peers", "png,webp4", *PEERS_ONLY)
    (line,) = [line for line in shown.out.splitlines() if line.startswith("WebP")]
    assert line.endswith("1 fail")


def test_deep_sets_are_compared_with_all_peers_that_know_them(cli: Cli) -> None:
    pytest.importorskip("imagecodecs")
    names = ("jxl3", "jxl6", "jxl7", "jxl9", "jpegls", "jpeg2000")
    raw = 0
    for number, mode in enumerate(("L16", "RGB16")):
        picture = make_picture(mode, 21, 24, seed=number)
        picture.samples[:] >>= 4  # 12 bits are in use
        raw += picture.samples.nbytes
        write_image(Path(f"set/{mode}.png"), picture)
    options = ("--model", cli.model, "--peers", ",".join(names), "-T", 1, "--json")
    result = cli("bench", "set", *options)
    assert result.code == 0, result.err
    rows = {row["codec"]: row for row in json.loads(result.out)["codecs"]}
    expected = {PEERS[name].name for name in names} | {"lmzip tiny", "lmzip tiny archive"}
    assert set(rows) - {"PNG"} == expected
    assert all(row["exact"] and not row["failures"] for row in rows.values())
    assert all(0 < row["size"] < 1.2 * raw for row in rows.values())


def test_means_are_over_bytes_and_not_over_ratios(cli: Cli) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    write_image(Path("set/large.png"), Picture(noise, make_picture().mode))
    flat = np.zeros((4, 4, 3), np.uint8)
    write_image(Path("set/small.png"), Picture(flat, make_picture().mode))
    result = cli("bench", "set", *ONLY_PNG, "--json")
    (row,) = json.loads(result.out)["codecs"]
    pictures = [Picture(pixels, make_picture().mode) for pixels in (noise, flat)]
    sizes = [len(PEERS["png"].encode(picture)) for picture in pictures]
    assert row["bpd"] == 8 * sum(sizes) / (noise.size + flat.size)


def test_the_table_fits_a_terminal(cli: Cli, images: Pixels) -> None:
    result = cli("bench", "images.npy", "--model", cli.model, "--peers", "png", "--limit", 2)
    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[:4]] == ["codec", "PNG", "lmzip", "lmzip"]
    assert lines[4].startswith("images.npy: 2 images, 0.00 MB of samples; ")
    wide = cli("bench", "images.npy", *ONLY_PNG, "--wide")
    assert "Pillow" in wide.out


def test_the_help_says_that_a_cluster_makes_an_archive_on_one_core(cli: Cli) -> None:
    text = " ".join(cli("bench", "--help").out.split())
    assert "With --scheduler, an archive is one task" in text


def test_csv_has_one_line_for_each_codec(cli: Cli, images: Pixels) -> None:
    result = cli("bench", "images.npy", *ONLY_PNG, "--csv")
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert row["codec"] == "PNG"
    assert int(row["size"]) > 0
    assert row["failures"] == "0"
    assert row["exact"] == "True"
    assert row["processor"]
    both = cli("bench", "images.npy", "--csv", "--json")
    assert both.code == 2


def test_files_that_cannot_be_read_are_named(cli: Cli) -> None:
    write_image(Path("set/a.png"))
    Path("set/b.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    result = cli("bench", "set", *ONLY_PNG)
    assert result.code == 1
    assert "set/b.png: damaged PNG file" in result.err
    assert "set: 1 image, " in result.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bench", "nowhere"), "nowhere: no such file or folder"),
        (("bench", "cifar10"), "where is cifar10?"),
        (("bench", "images.npy", "more.npy"), "give one data set"),
        (("bench", "images.npy", "--peers", "gif"), "unknown peer 'gif'"),
        (("bench", "images.npy", "--model", "nobody"), "unknown model 'nobody'"),
        (("bench", "images.npy", "--command", "x", "cp {input}", "y"), "must mention"),
        (("bench", "images.npy", "--peers", "none", "--no-files", "--no-archive"), "nothing to"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    cli: Cli, images: Pixels, args: tuple[str, ...], message: str
) -> None:
    result = cli(*args)
    assert result.code != 0
    assert message in result.err
    assert result.out == ""


def test_it_says_so_if_no_models_are_installed(
    cli: Cli, images: Pixels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    result = cli("bench", "images.npy", *ONLY_PNG, "--json")
    assert "no models are installed" in result.err
    assert json.loads(result.out)["machine"]["models"] == []


def test_it_works_without_torch(images: Pixels, tmp_path: Path, tiny_model_path: Path) -> None:
    program = "import sys; sys.modules['torch'] = None; from lmzip.cli import main; main()"
    args = (
        "bench",
        "images.npy",
        "--model",
        str(tiny_model_path),
        "--peers",
        "png",
        "--limit",
        "2",
    )
    finished = subprocess.run(
        [sys.executable, "-P", "-c", program, *args], capture_output=True, text=True, cwd=tmp_path
    )
    assert finished.returncode == 0, finished.stderr
    assert "lmzip tiny archive" in finished.stdout


def odd_set() -> ArraySet:
    pixels = np.zeros((4, 2, 2, 1), np.uint8)
    pixels[2] = 13
    return ArraySet("odd", ("a", "b", "c", "d"), pixels)


def test_a_codec_that_raises_fails_on_that_image_alone() -> None:
    row = measure_codec(OddPeer(habit="raise"), odd_set(), threads=2)
    assert row.sizes == (16, 16, None, 16)
    assert row.image_samples == (4, 4, 4, 4)
    assert [(p.image, p.reason) for p in row.failures] == [("c", "not this one")]
    assert row.size is None
    assert row.threads == 2


def test_a_codec_that_dies_takes_nobody_along() -> None:
    row = measure_codec(OddPeer(habit="die"), odd_set(), threads=2)
    assert row.sizes == (16, 16, None, 16)
    assert [p.image for p in row.failures] == ["c"]
    assert "SIGKILL" in row.failures[0].reason


def test_progress_ends_at_the_end(tiny_model_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    data = ArraySet("set", ("a", "b"), smooth_images(2, 8, 8, 3))
    settings = LmzipSettings(str(tiny_model_path))
    for codec in (LmzipFiles("files", settings), LmzipArchive("archive", settings)):
        measure_codec(codec, data, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1]


def test_differences_are_described() -> None:
    image = np.zeros((3, 4, 3), np.uint8)
    other = image.copy()
    other[1, 2] = 5
    other[2, 0, 1] = 1
    assert describe_difference(image, image.copy()) == ""
    assert describe_difference(image, other) == "2 pixels changed, the first at 1,2"
    assert "uint16" in describe_difference(image, image.astype(np.uint16))
    assert "(3, 4, 1)" in describe_difference(image, image[..., :1])


def test_data_sets_are_found_by_what_is_there(tmp_path: Path) -> None:
    write_image(tmp_path / "photos" / "b" / "x.png", make_picture("P"))
    write_image(tmp_path / "photos" / "a.pbm", make_picture("1"))
    folder = open_set(None, tmp_path / "photos")
    assert isinstance(folder, FolderSet)
    assert folder.names == ("a.pbm", "b/x.png")
    assert [picture.mode.name for picture in folder.pictures()] == ["L", "RGB"]
    assert not folder.picture(1).metadata
    assert len(open_set("images", tmp_path / "photos", limit=1)) == 1

    np.save(tmp_path / "grey.npy", np.zeros((3, 4, 5), np.uint16))
    array = open_set(None, tmp_path / "grey.npy", limit=2)
    assert isinstance(array, NpySet)
    assert [picture.mode.name for picture in array.pictures()] == ["L16", "L16"]
    np.save(tmp_path / "bad.npy", np.zeros(3))
    with pytest.raises(InputError, match="N x H x W"):
        open_set(None, tmp_path / "bad.npy")

    (tmp_path / "mnist").mkdir()
    header = np.array([0x803, 2, 28, 28], ">i4").tobytes()
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(header + bytes(2 * 28 * 28))
    digits = open_set(None, tmp_path / "mnist")
    assert digits.title == "MNIST test"
    assert digits.picture(1).mode.name == "L"


def test_cifar10_is_found_from_outside_and_from_inside(tmp_path: Path) -> None:
    inside = tmp_path / "cifar-10-batches-bin"
    inside.mkdir()
    records = np.zeros((10_000, 3073), np.uint8)
    records[1, 1 + 1024 + 32 * 2 + 3] = 77  # image 1, green, row 2, column 3
    (inside / "test_batch.bin").write_bytes(records.tobytes())
    for kind, path in (
        (None, tmp_path),
        ("cifar10", tmp_path),
        ("cifar10", inside),
        (None, inside),
    ):
        data = open_set(kind, path, limit=2)
        assert data.title == "CIFAR-10 test"
        assert len(data) == 2
        assert data.picture(1).samples[2, 3].tolist() == [0, 77, 0]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_meter_counts_this_process_and_its_children() -> None:
    with MemoryMeter() as meter:
        block = np.ones(48 << 20, np.uint8)
        del block
    assert meter.peak is not None
    assert 40e6 < meter.peak < 100e6
    program = "import time; block = b'x' * (64 << 20); time.sleep(0.3)"
    with MemoryMeter(children=True) as meter:
        subprocess.run([sys.executable, "-c", program], check=True)
    assert meter.peak is not None
    assert 60e6 < meter.peak < 200e6
