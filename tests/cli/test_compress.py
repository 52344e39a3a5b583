"""lmzip compress: what is written, what is said, and how it ends."""

import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.cli_runner import make_picture, start, write_image

import lmzip
from lmzip.cli.console import format_size
from lmzip.container.image_reader import decompress_picture
from lmzip.picture import MODES


def restore(path, model):
    return decompress_picture(Path(path).read_bytes(), model=model)


@pytest.mark.parametrize("name", MODES)
def test_one_line_a_file(cli, name):
    suffix = "tiff" if name == "CMYK" else "png"
    picture = write_image(Path(f"photo.{suffix}"), make_picture(name))
    result = cli.compress(f"photo.{suffix}")
    info = lmzip.read_info(Path("photo.lmz").read_bytes())
    raw, size = picture.samples.nbytes, os.path.getsize("photo.lmz")
    how = info.method if info.model_bpd is None else f"model {info.model_bpd:.3f}"
    line = (
        f"{f'photo.{suffix}':<18} {format_size(raw):>8} -> {format_size(size):>8} "
        f"{raw / size:5.2f}x "
        f"{8 * size / picture.samples.size:6.3f} bpd ({how}) # s\n"
    )
    assert (result.code, result.out, result.err) == (0, line, "")
    decoded = restore("photo.lmz", cli.model)
    assert decoded.mode.name == name
    np.testing.assert_array_equal(decoded.samples, picture.samples)
    assert set(decoded.metadata) == {*picture.metadata, "TIME"}


def test_the_network_is_used_if_it_is_asked_for(cli):
    write_image(Path("photo.png"))
    cli.compress("photo.png")
    info = lmzip.read_info(Path("photo.lmz").read_bytes())
    assert (info.method, info.model, info.order) == ("network", "tiny", "raster")


def test_lines_fit_a_terminal(cli):
    write_image(Path("photo.png"), make_picture(height=200, width=300))
    for line in cli.compress("photo.png").out.splitlines():
        assert len(line) <= 80 - len("100.0 s") + len("# s")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: None, "x.png: No such file or directory"),
        (lambda: Path("x.png").write_bytes(b"hello"),
         "x.png: not an image that lmzip reads (PNG, TIFF, BMP, PNM, WebP, GIF, QOI, JPEG)"),
        (lambda: Path("x.png").write_bytes(b""), "x.png: the file is empty"),
        (lambda: Path("x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(30)),
         "x.png: damaged PNG file (no chunk is called b'\\x00\\x00\\x00\\x00')"),
        (lambda: Path("x.png").mkdir(), "x.png: is a folder\nhint: -r goes through folders"),
        (lambda: (write_image(Path("x.png")), Path("x.lmz").write_bytes(b"old")),
         "x.png: x.lmz already exists\nhint: -f overwrites it"),
    ],
)  # fmt: skip
def test_what_fails_is_one_line_and_exit_1(cli, make, error):
    make()
    before = {path: path.is_file() and path.read_bytes() for path in Path().iterdir()}
    result = cli.compress("x.png")
    assert (result.code, result.out, result.err) == (1, "", f"lmzip: {error}\n")
    assert {path: path.is_file() and path.read_bytes() for path in Path().iterdir()} == before


def test_an_unreadable_input(cli, monkeypatch):
    write_image(Path("x.png"))  # taking its permissions away would not stop root

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("lmzip.cli.files.open", refuse, raising=False)
    result = cli.compress("x.png")
    assert (result.code, result.err) == (1, "lmzip: x.png: Permission denied\n")


@pytest.mark.parametrize("force", [[], ["-f"]])
@pytest.mark.parametrize("output", ["x.png", "./x.png", "link.png"])
def test_never_over_the_input(cli, force, output):
    write_image(Path("x.png"))
    Path("link.png").symlink_to("x.png")
    before = Path("x.png").read_bytes()
    result = cli.compress("x.png", "-o", output, *force)
    assert result.code == 1
    assert result.err == (
        "lmzip: x.png: the output would replace the input\nhint: -o gives it another name\n"
    )
    assert Path("x.png").read_bytes() == before


def test_a_batch_goes_on_and_ends_non_zero(cli):
    for name in ("a", "c"):
        write_image(Path(f"{name}.png"), make_picture(seed=ord(name)))
    Path("b.png").write_bytes(b"no image")
    result = cli.compress("a.png", "missing.png", "b.png", "c.png")
    assert result.code == 1
    assert [line.split()[0] for line in result.out.splitlines()] == ["a.png", "c.png", "total"]
    assert result.out.splitlines()[2].startswith("total of 2           1.3 kB -> ")
    assert [line.split(": ")[1] for line in result.err.splitlines()] == ["missing.png", "b.png"]
    assert Path("a.lmz").exists()
    assert Path("c.lmz").exists()


def test_two_inputs_of_one_name_do_not_share_an_output(cli):
    first = write_image(Path("a.png"), make_picture(seed=1))
    write_image(Path("a.bmp"), make_picture(seed=2))
    result = cli.compress("-f", "a.png", "a.bmp")
    assert (result.code, result.err) == (0, "")
    assert sorted(p.name for p in Path().iterdir()) == ["a.bmp", "a.bmp.lmz", "a.png", "a.png.lmz"]
    np.testing.assert_array_equal(restore("a.png.lmz", cli.model).samples, first.samples)
    Path("a.bmp").unlink()
    assert cli.decompress("a.bmp.lmz").code == 0  # and goes back to its name and format
    assert Path("a.bmp").read_bytes()[:2] == b"BM"


def test_a_folder_is_mirrored(cli):
    write_image(Path("in/a.png"))
    write_image(Path("in/deep/er/b.tiff"))
    Path("in/notes.txt").write_text("not an image")
    Path("in/photo.jpg").write_text("left alone, it would grow")
    result = cli.compress("-r", "in", "-o", "out")
    assert result.code == 0
    assert result.err == "lmzip: 1 JPEG file skipped: the exact pixels would take more space\n"
    written = sorted(str(path) for path in Path("out").rglob("*.*"))
    assert written == ["out/a.lmz", "out/deep/er/b.lmz"]


def test_a_folder_without_images_is_an_error(cli):
    Path("in").mkdir()
    result = cli.compress("-r", "in")
    assert result.code == 1
    assert result.err == "lmzip: in: this folder has no files of the right kind\n"


def test_several_inputs_go_to_a_folder(cli):
    write_image(Path("a.png"))
    write_image(Path("b.png"))
    Path("file").write_text("a file")
    result = cli.compress("a.png", "b.png", "-o", "file")
    assert (result.code, result.err.splitlines()[0]) == (
        2, "lmzip: file is a file; several outputs need a folder"
    )  # fmt: skip
    assert cli.compress("a.png", "b.png", "-o", "new/folder").code == 0
    assert sorted(os.listdir("new/folder")) == ["a.lmz", "b.lmz"]


def test_rm_deletes_what_was_verified(cli):
    write_image(Path("a.png"))
    Path("b.png").write_bytes(b"no image")
    result = cli.compress("--rm", "a.png", "b.png")
    assert result.code == 1
    assert sorted(os.listdir()) == ["a.lmz", "b.png"]


def test_rm_keeps_inputs_that_go_to_a_device(cli):
    write_image(Path("a.png"))
    assert cli.compress("--rm", "a.png", "-o", os.devnull).code == 0
    assert os.listdir() == ["a.png"]
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("archive", [[], ["--archive", "-o", "all.lmz"]])
def test_rm_refuses_what_has_frames_that_cannot_be_kept(cli, archive):
    frames = [Image.fromarray(np.full((8, 9, 3), level, np.uint8)) for level in (10, 200)]
    frames[0].save("two.mpo", save_all=True, append_images=frames[1:])
    write_image(Path("a.png"))
    result = cli.compress("--rm", *archive, "two.mpo", "a.png")
    assert result.code == 1
    assert result.err.splitlines()[-1] == (
        "lmzip: two.mpo: only the first of 2 frames can be kept (further pictures of such files "
        "are not supported): not compressed with --rm"
    )
    assert Path("two.mpo").exists()
    assert not Path("two.lmz").exists()
    assert not Path("a.png").exists()
    result = cli.compress("two.mpo")
    assert result.code == 0
    assert "warning: only the first of 2 frames can be kept" in result.err


def test_rm_needs_verification(cli):
    result = cli.compress("--rm", "--no-verify", "a.png")
    assert (result.code, result.err) == (
        2,
        "lmzip: --rm deletes only what was verified: leave out --no-verify\n"
        "hint: see 'lmzip compress --help'\n",
    )


@pytest.mark.parametrize("archive", [[], ["--archive", "-o", "x.lmz"]])
def test_a_mismatch_leaves_everything_as_it_was(cli, monkeypatch, archive):
    """A codec that brings back other pixels is caught before anything is written or removed."""
    write_image(Path("x.png"))
    other = make_picture(seed=9)
    monkeypatch.setattr("lmzip.cli.compressing.decompress_picture", lambda *_, **__: other)
    monkeypatch.setattr(lmzip.Archive, "pictures", lambda *_: [other])
    result = cli.compress("--rm", "x.png", *archive)
    name = "x.lmz" if archive else "x.png"
    assert (result.code, result.err) == (
        3, f"lmzip: {name}: verification failed: the decoded pixels differ (nothing written)\n"
    )  # fmt: skip
    assert os.listdir() == ["x.png"]


def test_permissions_and_times_go_with_the_file(cli):
    write_image(Path("x.png"))
    os.chmod("x.png", 0o640)
    os.utime("x.png", ns=(1_500_000_000_123_456_789, 1_400_000_000_987_654_321))
    assert cli.compress("x.png").code == 0
    status = os.stat("x.lmz")
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_mtime_ns == 1_400_000_000_987_654_321
    assert cli.decompress("x.lmz", "-o", "y.png").code == 0
    assert os.stat("y.png").st_mtime_ns == 1_400_000_000_987_654_321


def test_strip_drops_metadata(cli):
    Image.new("RGB", (5, 5)).save("x.png", icc_profile=b"profile", dpi=(300, 300))
    cli.compress("x.png")
    cli.compress("--strip", "x.png", "-o", "y.lmz")
    assert set(lmzip.read_info("x.lmz").metadata) == {"ICCP", "PHYS", "TIME"}
    assert lmzip.read_info("y.lmz").metadata == {}


def test_a_jpeg_is_taken_with_a_warning(cli):
    Image.new("RGB", (16, 16), "red").save("x.jpg")
    result = cli.compress("x.jpg")
    assert (result.code, result.err) == (
        0, "lmzip: x.jpg: warning: stored exactly, its pixels take more bytes than this JPEG\n"
    )  # fmt: skip
    assert cli.compress("-f", "-q", "x.jpg").err == ""


def test_json_is_one_document(cli):
    picture = write_image(Path("a.png"))
    result = cli.compress("--json", "a.png", "missing.png")
    document = json.loads(result.out)
    size = os.path.getsize("a.lmz")
    entry = document["files"][0]
    assert entry["input"] == "a.png"
    assert entry["output"] == "a.lmz"
    assert entry["raw_bytes"] == picture.samples.nbytes
    assert entry["bytes"] == size
    assert entry["bpd"] == 8 * size / picture.samples.size
    assert 0 < entry["model_bpd"] < entry["bpd"]
    assert document["files"][1] == {
        "input": "missing.png", "error": "No such file or directory", "exit_code": 1
    }  # fmt: skip
    assert document["total"]["count"] == 1
    assert document["exit_code"] == result.code == 1


def test_stdin_and_stdout(cli):
    picture = write_image(Path("a.png"))
    with open("a.png", "rb") as file:
        process = start("compress", "-", "--model", cli.model, stdin=file)
        out, err = process.communicate()
    assert (process.returncode, err[:3]) == (0, b"-  ")
    np.testing.assert_array_equal(decompress_picture(out, model=cli.model).samples, picture.samples)
    assert os.listdir() == ["a.png"]


def test_an_archive_on_stdout(cli):
    write_image(Path("a.png"))
    process = start("compress", "--model", cli.model, "--archive", "-c", "a.png")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert lmzip.read_info(out).is_archive


def test_long_names_and_names_that_are_no_text(cli):
    long, odd = "日" * 83 + ".png", os.fsdecode(b"bad\xff\n.png")
    for name in (long, odd):
        write_image(Path(name))
    result = cli.compress(long, odd)
    assert (result.code, result.err) == (0, "")
    assert "bad\\udcff\\n.png" in result.out
    assert len(result.out.splitlines()) == 3
    assert Path(long).with_suffix(".lmz").exists()
    assert Path(odd).with_suffix(".lmz").exists()
    result = cli.compress("--archive", "-o", "all.lmz", odd, long)
    assert (result.code, result.err) == (
        1,
        "lmzip: bad\\udcff\\n.png: names in an archive must be UTF-8, and this one is not\n",
    )
    assert lmzip.read_info("all.lmz").count == 1


def test_a_folder_that_is_missing_is_noticed_before_the_work(cli, monkeypatch):
    write_image(Path("a.png"))
    monkeypatch.setattr("lmzip.cli.compressing.compress_picture", None)
    result = cli.compress("a.png", "-o", "nowhere/a.lmz")
    assert (result.code, result.err) == (1, "lmzip: a.png: nowhere is not a folder\n")


def test_never_binary_to_a_terminal(cli, monkeypatch):
    write_image(Path("a.png"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = cli.compress("-c", "a.png")
    assert (result.code, result.out, result.err.splitlines()[0]) == (
        2, "", "lmzip: will not write binary data to a terminal: use -o FILE"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["-c", "a.png", "b.png"], "only one file can go to stdout"),
        (["-c", "-o", "x", "a.png"], "-c and -o exclude each other"),
        (["--json", "-c", "a.png"], "--json and a file cannot both go to stdout"),
        (["--archive", "a.png"], "--archive needs -o FILE"),
        (["--archive", "--skip-existing", "a.png", "-o", "all.lmz"],
         "--skip-existing passes over single files: leave out --archive"),
        (["-c", "--rm", "a.png"], "--rm deletes only what is safe in a file: leave out -c"),
        (["-o", "-", "--rm", "a.png"], "--rm deletes only what is safe in a file: leave out -c"),
        (["--archive", "-c", "--rm", "a.png"],
         "--rm deletes only what is safe in a file: leave out -c"),
        (["--effort", "huge", "a.png"],
         "Invalid value for '--effort': 'huge' is not one of 'fast', 'default', 'best', 'max'."),
        (["--nonsense", "a.png"], "No such option '--nonsense'."),
        ([], "Missing argument 'INPUT...'."),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_2(cli, args, error):
    for name in ("a.png", "b.png"):
        write_image(Path(name))
    result = cli.compress(*args)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"lmzip: {error}\nhint: see 'lmzip compress --help'\n"


@pytest.mark.parametrize(
    ("option", "code", "error"),
    [
        (["--model", "nonsense"], 4, "unknown model 'nonsense': the released ones are "),
        (["--model", "no.safetensors"], 4, "no.safetensors: no such model file"),
        (["--order", "zigzag"], 2, "unknown order 'zigzag': choose from "),
        (["--order", "s-curve"], 2, "model 'tiny' predicts in raster only, not in s-curve; "
         "thumb-any predicts in any order"),
    ],
)  # fmt: skip
def test_models_and_orders_that_do_not_exist(cli, option, code, error):
    write_image(Path("a.png"))
    result = cli.compress("a.png", *option)
    assert (result.code, len(result.err.splitlines())) == (code, 2 if code == 2 else 1)
    assert result.err.startswith(f"lmzip: {error}")
    assert os.listdir() == ["a.png"]


def test_archives_hold_names_and_metadata(cli):
    pictures = [make_picture(seed=seed) for seed in range(3)] + [make_picture("P", 5, 7)]
    names = ["in/a.png", "in/b.png", "in/sub/c.png", "in/sub/d.png"]
    for name, picture in zip(names, pictures, strict=True):
        write_image(Path(name), picture)
    result = cli.compress("--archive", "-r", "in", "-o", "all.lmz")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("all.lmz ")
    with lmzip.open_archive("all.lmz", model=cli.model) as archive:
        assert archive.names == ["a.png", "b.png", "sub/c.png", "sub/d.png"]
        for number, picture in enumerate(pictures):
            packed = archive.picture(number)
            np.testing.assert_array_equal(packed.samples, picture.samples)
            assert set(packed.metadata) == {*picture.metadata, "TIME"}


def test_an_archive_replaces_neither_files_nor_inputs(cli):
    write_image(Path("a.png"))
    write_image(Path("b.png"))
    before = Path("a.png").read_bytes()
    for output, error in (
        ("a.png", "a.png: a.png already exists\nhint: -f overwrites it\n"),
        ("new.lmz/", "new.lmz/ is a folder; an archive is one file\n"),
    ):
        result = cli.compress("--archive", "a.png", "b.png", "-o", output)
        assert result.code in (1, 2)
        assert result.err.startswith(f"lmzip: {error}")
    result = cli.compress("--archive", "-f", "a.png", "-o", "a.png")
    assert result.err.startswith("lmzip: a.png: the output would replace the input\n")
    assert Path("a.png").read_bytes() == before
    assert sorted(os.listdir()) == ["a.png", "b.png"]


def test_archives_go_on_without_what_cannot_be_read(cli):
    write_image(Path("a.png"))
    Path("b.png").write_bytes(b"no image")
    result = cli.compress("--archive", "--rm", "a.png", "b.png", "-o", "all.lmz")
    assert result.code == 1
    assert sorted(os.listdir()) == ["all.lmz", "b.png"]
    assert lmzip.read_info("all.lmz").count == 1


def test_verbose_shows_a_traceback_twice_over(cli):
    Path("b.png").write_bytes(b"no image")
    assert "Traceback" not in cli.compress("-v", "b.png").err
    assert "Traceback" in cli.compress("-vv", "b.png").err


def test_a_bug_is_one_line_too(cli, monkeypatch):
    write_image(Path("a.png"))
    cli.compress("a.png")

    def fail(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("lmzip.cli.compressing.compress_picture", fail)
    result = cli.compress("-f", "a.png")
    assert (result.code, result.err) == (
        1,
        "lmzip: a.png: internal error (ZeroDivisionError: division by zero)\n"
        "hint: please report this, with the output of -vv\n",
    )
