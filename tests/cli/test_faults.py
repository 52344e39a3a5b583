"""Devices that fail, two processes on one file, files that change: nothing lost, and named."""

import contextlib
import errno
import io
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from support.cli_runner import make_picture, start, write_image

import lmzip
from lmzip.container.image_reader import decompress_picture
from lmzip.formats.reading import read_picture


class Watched(io.FileIO):
    """A file that something happens to while it is read."""

    def __init__(self, path: Path, act: Callable[[Path], None]) -> None:
        super().__init__(path)
        self._path, self._act = path, act

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._act(self._path)
        return data


@contextlib.contextmanager
def while_reading(name: str, act: Callable[[Path], None]) -> Iterator[None]:
    """Let something happen when a command reads the file of a name."""

    def open_file(path: Path, mode: str) -> io.RawIOBase | IO[bytes]:
        return Watched(path, act) if path.name == name else open(path, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.cli.files.open", open_file, raising=False)
        yield


def fail(_: Path) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def append(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def shorten(path: Path) -> None:
    os.truncate(path, 50)


@pytest.mark.parametrize("command", ["compress", "decompress", "info", "verify"])
def test_a_device_that_cannot_be_read(command, tmp_path, monkeypatch):
    """Reading the start of one's own memory is an error of input and output."""
    monkeypatch.chdir(tmp_path)
    output = ["-o", "out.lmz"] if command == "compress" else []
    process = start(command, "/proc/self/mem", *output)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (1, b"")
    assert err == b"lmzip: /proc/self/mem: Input/output error\n"
    assert os.listdir() == []


def test_the_same_command_again_finishes_after_an_error_of_the_disk(cli):
    for number in range(3):
        write_image(Path(f"in/{number}.png"), make_picture(seed=number))
    command = ("-r", "--rm", "--skip-existing", "in")
    with while_reading("1.png", fail):
        result = cli.compress(*command)
    assert (result.code, result.err) == (1, "lmzip: in/1.png: Input/output error\n")
    assert sorted(os.listdir("in")) == ["0.lmz", "1.png", "2.lmz"]
    assert cli.compress(*command).code == 0
    assert sorted(os.listdir("in")) == ["0.lmz", "1.lmz", "2.lmz"]
    for number in range(3):
        back = decompress_picture(Path(f"in/{number}.lmz").read_bytes(), model=cli.model)
        np.testing.assert_array_equal(back.samples, make_picture(seed=number).samples)


@pytest.mark.parametrize("change", [append, shorten])
def test_a_file_that_changes_while_it_is_read(cli, change):
    write_image(Path("x.png"))
    before = Path("x.png").read_bytes()
    with while_reading("x.png", change):
        result = cli.compress("--rm", "x.png")
    assert (result.code, result.err) == (1, "lmzip: x.png: the file changed while it was read\n")
    assert os.listdir() == ["x.png"]
    Path("x.png").write_bytes(before)
    assert cli.compress("--rm", "x.png").code == 0
    assert os.listdir() == ["x.lmz"]


def test_a_compressed_file_that_is_replaced_while_it_is_restored_is_not_deleted(cli, monkeypatch):
    picture = write_image(Path("x.png"))
    assert cli.compress("--rm", "x.png").code == 0

    def replace_it(*arguments, **options):
        Path("x.lmz").write_bytes(b"something new")
        return decompress_picture(*arguments, **options)

    monkeypatch.setattr("lmzip.cli.restoring.decompress_picture", replace_it)
    result = cli.decompress("--rm", "x.lmz")
    assert (result.code, result.err) == (
        1, "lmzip: x.lmz: not deleted: it changed after it was read\n"
    )  # fmt: skip
    assert Path("x.lmz").read_bytes() == b"something new"
    back = read_picture(Path("x.png").read_bytes()).picture
    np.testing.assert_array_equal(back.samples, picture.samples)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_a_target_that_cannot_be_written(cli, number):
    """A disk that is read-only or full, a folder of someone else: the input stays."""
    write_image(Path("x.png"))
    with pytest.MonkeyPatch.context() as patch:
        opened = os.open

        def refuse(path, flags, *args, **options):
            if flags & os.O_CREAT:
                raise OSError(number, os.strerror(number), str(path))
            return opened(path, flags, *args, **options)

        patch.setattr(os, "open", refuse)
        result = cli.compress("--rm", "x.png")
    assert (result.code, result.err) == (1, f"lmzip: x.png: x.lmz: {os.strerror(number)}\n")
    assert os.listdir() == ["x.png"]
    assert cli.compress("--rm", "x.png").code == 0
    assert os.listdir() == ["x.lmz"]


@pytest.mark.parametrize(
    "name", [b"two\nlines", b"not \xff utf-8", b"esc\x1b[31m", b"-", b"x" * 250]
)
def test_strange_names(cli, name):
    """Nothing that a name contains breaks a line, a terminal or a file."""
    path = Path("in", os.fsdecode(name[:240] + b".png"))
    picture = write_image(path)
    result = cli.compress("-r", "--rm", "in")
    assert (result.code, result.err) == (0, "")
    assert len(result.out.splitlines()) == 1
    assert "\x1b" not in result.out
    assert os.listdir("in") == [path.with_suffix(".lmz").name]
    assert cli.decompress("-r", "--rm", "in").code == 0
    assert os.listdir("in") == [path.name]
    back = read_picture(path.read_bytes()).picture
    np.testing.assert_array_equal(back.samples, picture.samples)


def test_an_archive_that_is_shortened_while_it_is_open(tmp_path, cli):
    """A mapped file would end the process with a signal."""
    images = np.stack([make_picture(seed=number).samples for number in range(40)])
    data = lmzip.compress_batch(images, model=cli.model)
    path = tmp_path / "x.lmz"
    path.write_bytes(data)
    with lmzip.open_archive(path, model=cli.model) as archive:
        os.truncate(path, 10)
        with pytest.raises(lmzip.DamagedError, match="has become shorter"):
            archive[3]


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, err = process.communicate(timeout=100)
    return process.returncode, err.decode()


@pytest.mark.parametrize("force", [[], ["-f"]])
def test_two_processes_compress_one_file(cli, force):
    picture = write_image(Path("x.png"), make_picture(height=90, width=80))
    command = ("compress", "--rm", *force, "-T", 1, "x.png", "--model", cli.model)
    results = [finish(process) for process in [start(*command), start(*command)]]
    assert min(code for code, _ in results) == 0
    for code, err in results:
        assert code in (0, 1)
        expected = "already exists", "No such file or directory", "changed"
        assert code == 0 or any(reason in err for reason in expected), err
        assert "internal" not in err
    assert os.listdir() == ["x.lmz"]
    back = decompress_picture(Path("x.lmz").read_bytes(), model=cli.model)
    np.testing.assert_array_equal(back.samples, picture.samples)


def test_two_processes_restore_one_file(cli):
    picture = write_image(Path("x.png"), make_picture(height=90, width=80))
    assert cli.compress("--rm", "x.png").code == 0
    command = ("decompress", "--rm", "-T", 1, "x.lmz", "--model", cli.model)
    results = [finish(process) for process in [start(*command), start(*command)]]
    assert min(code for code, _ in results) == 0
    assert all("internal" not in err for _, err in results)
    assert os.listdir() == ["x.png"]
    back = read_picture(Path("x.png").read_bytes()).picture
    np.testing.assert_array_equal(back.samples, picture.samples)
