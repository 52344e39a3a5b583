"""Full disks, closed pipes, signals and sudden death leave the old state or the new one."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import make_picture, start, write_image

from lmzip.container.image_reader import decompress_picture

LARGE = make_picture(height=420, width=500)  # takes a second or so


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, (out or b"").decode(), err.decode()


def test_a_full_disk(cli):
    write_image(Path("x.png"), make_picture(height=60, width=60))
    Path("y.lmz").write_bytes(b"old")

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    for output, error in (("x.lmz", "x.lmz"), ("y.lmz", "y.lmz")):
        process = start(
            "compress", "-f", "--rm", "x.png", "-o", output, "--model", cli.model,
            preexec_fn=limit_files,
        )  # fmt: skip
        assert finish(process) == (1, "", f"lmzip: x.png: {error}: File too large\n")
    assert sorted(os.listdir()) == ["x.png", "y.lmz"]
    assert Path("y.lmz").read_bytes() == b"old"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_stdout_on_a_full_disk(cli, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        code, _, err = finish(start("models", "--json", stdout=full, env=environment))
    assert (code, err) == (1, "lmzip: standard output: No space left on device\n")


def test_an_output_that_cannot_be_written_is_named_and_not_the_input(cli):
    write_image(Path("x.png"))
    assert cli.compress("x.png").code == 0
    commands = [("compress", "x.png"), ("decompress", "x.lmz"), ("inspect", "x.png")]
    for command, name in commands:
        reason = f"lmzip: {name}: standard output: No space left on device\n"
        with open("/dev/full", "wb") as full:
            process = start(command, name, "-o", "-", "--model", cli.model, stdout=full)
            assert finish(process) == (1, "", reason)
    reason = "lmzip: x.lmz: standard output: No space left on device\n"
    with open("/dev/full", "wb") as full:
        assert finish(start("info", "x.lmz", stdout=full)) == (1, "", reason)
    result = cli.decompress("x.lmz", "-o", "/dev/full", "--format", "png")
    assert (result.code, result.err) == (1, "lmzip: x.lmz: /dev/full: No space left on device\n")


@pytest.mark.parametrize("args", [["-c"], []])
def test_a_closed_pipe_ends_quietly(cli, args):
    write_image(Path("x.png"))
    reading, writing = os.pipe()
    os.close(reading)
    process = start("compress", "x.png", "--model", cli.model, *args, stdout=writing)
    os.close(writing)
    code, _, err = finish(process)
    assert (code, err) == (1, "")


def wait_for_work(process: subprocess.Popen[bytes]) -> str:
    """Wait until the image has been read and the work on it begins (-v tells)."""
    assert process.stderr is not None
    return process.stderr.readline().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_nothing_behind(cli, number):
    write_image(Path("x.png"), LARGE)
    before = Path("x.png").read_bytes()
    before_test = signal.signal(number, signal.SIG_DFL)  # background jobs inherit it as ignored
    process = start("compress", "-v", "-T", 1, "--rm", "x.png", "--model", cli.model)
    signal.signal(number, before_test)
    line = wait_for_work(process)
    process.send_signal(number)
    code, out, err = finish(process)
    assert line.startswith("lmzip: x.png: 500x420 RGB")
    assert (code, out, err) == (128 + number, "", "lmzip: interrupted\n")
    assert os.listdir() == ["x.png"]
    assert Path("x.png").read_bytes() == before


@pytest.mark.slow
def test_killed_at_any_moment(cli):
    """SIGKILL cannot be dealt with: what is on disk must be right at every moment."""
    write_image(Path("x.png"), LARGE)
    before = Path("x.png").read_bytes()
    command = ("compress", "--rm", "x.png", "--model", cli.model)
    began = time.monotonic()
    assert finish(start(*command))[0] == 0
    seconds = time.monotonic() - began
    choose = random.Random(0)
    for _ in range(10):
        Path("x.lmz").unlink(missing_ok=True)
        Path("x.png").write_bytes(before)
        process = start(*command)
        time.sleep(choose.uniform(0, 1.05 * seconds))
        process.kill()
        process.communicate()
        left = {name for name in os.listdir() if not name.endswith(".lmzip-tmp")}
        assert left in ({"x.png"}, {"x.png", "x.lmz"}, {"x.lmz"})
        if "x.png" in left:
            assert Path("x.png").read_bytes() == before
        if "x.lmz" in left:
            decoded = decompress_picture(Path("x.lmz").read_bytes(), model=cli.model)
            np.testing.assert_array_equal(decoded.samples, LARGE.samples)


def test_progress_is_shown_on_a_terminal_and_wiped_out(cli):
    """In a terminal of 80 columns, a long job draws one line and leaves nothing of it."""
    write_image(Path("x.png"), make_picture(height=64, width=64))
    program = (
        "import lmzip.cli.console as r; r._BAR_DELAY = r._BAR_INTERVAL = 0.0\n"
        "from lmzip.cli import main; main()"
    )
    main_side, other_side = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, "compress", "x.png", "--model", cli.model],
        stderr=other_side,
    )
    assert process.wait(timeout=60) == 0
    os.close(other_side)
    shown = os.read(main_side, 1 << 16).decode()
    os.close(main_side)
    assert "x.png [###" in shown
    assert "100%" in shown
    assert all(len(part) < 80 for part in shown.split("\r"))
    assert shown.endswith(" \r")
