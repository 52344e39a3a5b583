"""What docs/TRUST.md reports: bits, mutations, kills and load, counted.

    python benchmarks/trust.py bits                 flip each bit, cut at each length
    python benchmarks/trust.py mutations [COUNT]    decode mutated files: time, memory, wrong pixels
    python benchmarks/trust.py kills [COUNT]        end `compress -r --rm` at random moments
    python benchmarks/trust.py files [COUNT]        find that many files in folders with loops
    python benchmarks/trust.py load [IMAGES [SECONDS]]   memory, threads, files under load
    python benchmarks/trust.py together             the API from 8 threads and 4 forked processes

Each prints one line of figures and fails if something was lost or wrong.
"""

from __future__ import annotations

import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

import lmzip
from lmzip.formats import read_frames, read_picture, write_picture

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
MODEL = GOLDEN / "golden.safetensors"
# A network's file with a tuning, one of 16 bits, a classical one, archives, animations, a document;
# the last two are of version 1.
KINDS = (
    "v2/tuned-rgba", "v2/deep-L16", "v2/palette", "pair", "v2/tuned-archive", "animation",
    "v2/frames-webp", "v2/frames-tiff", "rgba", "palette",
)  # fmt: skip
COMMAND = [sys.executable, "-P", "-c", "from lmzip.cli import main; main()"]
TEMPORARY = ".lmzip-tmp"  # the ending of files that are not yet whole
SLOW = 5.0  # seconds that no file may take


def draw_smooth(seed: int, height: int, width: int) -> np.ndarray:
    """Return a picture that a network codes."""
    steps = np.random.default_rng(seed).integers(-2, 3, (height, width, 3))
    return (128 + np.cumsum(steps, axis=1)).astype(np.uint8)


def decode(data: bytes) -> list[bytes]:
    """Return the samples of all images of a file."""
    if lmzip.is_archive(data):
        with lmzip.open_archive(data, model=MODEL, threads=1) as archive:
            return [np.ascontiguousarray(image).tobytes() for image in archive]
    return [lmzip.decompress(data, model=MODEL, threads=1).tobytes()]


def judge(data: bytes, right: list[bytes]) -> str:
    """Return what comes of a file: the name of an error, or "right"; fail on wrong pixels."""
    try:
        pixels = decode(data)
    except lmzip.LmzipError as error:
        kind, message = type(error).__name__, str(error)
    else:
        kind, message = "right", ""
        assert pixels == right, "wrong pixels without an error"
    assert "\n" not in message, message
    return kind


def small_file(kind: str) -> bytes:
    """Return a golden file, the smallest archive, or the smallest animation."""
    if kind == "animation":
        file = io.BytesIO()
        frames = [Image.new("P", (3, 4), colour) for colour in (1, 2)]
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=[20, 50])
        named = ((None, frame) for frame in read_frames(file.getvalue()))
        return lmzip.pack_archive(named, gather_metadata=True)
    if kind == "pair":
        images = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
        return lmzip.compress_batch(images, model=MODEL, threads=1)
    return (GOLDEN / f"{kind}.lmz").read_bytes()


def check_bits(kinds: tuple[str, ...] = KINDS) -> Counter[str]:
    """Flip each bit of small files, and cut them at each length."""
    outcomes: Counter[str] = Counter()
    for kind in kinds:
        data = small_file(kind)
        right = decode(data)
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            outcomes[judge(bytes(damaged), right)] += 1
        for length in range(len(data)):
            outcomes[judge(data[:length], right)] += 1
    return outcomes


def check_mutations(count: int) -> Counter[str]:
    """Decode mutated files, half of them with checksums made right again."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fuzz import targets

    choose = random.Random(count)
    paths = sorted(path for folder in (GOLDEN, GOLDEN / "v2") for path in folder.glob("*.lmz"))
    originals = [path.read_bytes() for path in paths]
    rights = [decode(data) for data in originals]
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        which = choose.randrange(len(originals))
        original = originals[which]
        sealed = number % 2 == 1
        if sealed and lmzip.is_archive(original):
            data = targets.mutate_index(original, choose)
        else:
            data = targets.mutate(original, choose)
            data = targets.reseal_image(data) if sealed else data
        began = time.monotonic()
        try:
            outcomes[judge(data, rights[which])] += 1
        except AssertionError:
            # An index that is sealed again is another archive: what it says of images is right.
            # Without that, only a file with another checksum of its pixels is another picture.
            if not sealed or (data[-4:] == original[-4:] and not lmzip.is_archive(original)):
                raise
            outcomes["another picture"] += 1
        slowest = max(slowest, time.monotonic() - began)
        assert slowest < SLOW, (which, slowest)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"slowest {slowest:.2f} s, most memory {peak} MB")
    return outcomes


def check_kills(count: int) -> Counter[str]:
    """End a run over a folder with --rm at random moments: every image is there, whole.

    Afterwards the same command, with --skip-existing, finishes the work. Only SIGKILL may leave
    temporary files behind. Runs that ended by themselves before their moment came do not count.
    """
    choose = random.Random(count)
    outcomes: Counter[str] = Counter()
    pixels = {f"{n:02d}.ppm": draw_smooth(n, 60, 80) for n in range(12)}
    temporary, between = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "in")
        whole = run_over(folder, pixels, None)
        while outcomes.total() < count:
            number = choose.choice((signal.SIGKILL, signal.SIGTERM))
            taken = run_over(folder, pixels, (number, choose.uniform(0.3, 1) * whole))
            left = Counter(path.suffix for path in folder.iterdir())
            if not left[".ppm"]:
                whole = taken  # a machine is not always as busy
                continue
            assert not left[TEMPORARY] or number == signal.SIGKILL
            temporary += left[TEMPORARY]
            between += left[".lmz"] > 0
            for image, right in pixels.items():
                source, target = folder / image, (folder / image).with_suffix(".lmz")
                if source.exists():
                    found = read_picture(source.read_bytes()).picture.samples
                    assert np.array_equal(found, right), image
                if target.exists():
                    assert np.array_equal(lmzip.decompress(target.read_bytes()), right), image
                assert source.exists() or target.exists(), f"{image} is lost"
            again = [*COMMAND, "compress", "-q", "-r", "--rm", "--skip-existing", str(folder)]
            subprocess.run(again, check=True)
            names = sorted(path.name for path in folder.iterdir() if path.suffix != TEMPORARY)
            assert names == [f"{n:02d}.lmz" for n in range(12)]
            outcomes[signal.Signals(number).name] += 1
    print(f"{between} when some images were done; {temporary} temporary files left by SIGKILL")
    return outcomes


def run_over(folder: Path, pixels: dict[str, np.ndarray], end: tuple[int, float] | None) -> float:
    """Compress a fresh folder with --rm, end it by a signal after a while; return the seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, samples in pixels.items():
        picture = lmzip.Picture(samples, lmzip.MODES["RGB"])
        (folder / name).write_bytes(write_picture(picture, ".ppm")[0])
    began = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, "compress", "-q", "-T", "1", "-r", "--rm", str(folder)],
        stderr=subprocess.DEVNULL,
    )
    if end is not None:
        try:
            process.wait(timeout=end[1])
        except subprocess.TimeoutExpired:
            process.send_signal(end[0])
    process.wait(timeout=300)
    return time.monotonic() - began


def check_files(count: int) -> Counter[str]:
    """Find files by the hundred thousand, with symbolic links that lead in circles."""
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            folder = Path(name, str(number // 1000))
            if number % 1000 == 0:
                folder.mkdir()
                (folder / "loop").symlink_to("..")
            (folder / f"{number}.lmz").touch()
        began = time.monotonic()
        finished = subprocess.run(
            [*COMMAND, "info", "-q", "-r", name], capture_output=True, text=True, check=False
        )
        lines = finished.stderr.count("not an lmz file") + finished.stderr.count("\n")
        print(f"exit code {finished.returncode}, {time.monotonic() - began:.0f} s")
        assert finished.stderr.count(".lmz:") == count, lines
    return Counter({"files named": count})


def check_load(images: int, seconds: float) -> Counter[str]:
    """Compress and decode with all cores: at least so many images, and for so many seconds.

    Memory is that of the last minute against that of the first, the largest of each.
    """
    minute = min(60.0, seconds / 10)
    began, pid = time.monotonic(), os.getpid()
    done: list[float] = []  # when each image was done
    memory: list[tuple[float, int]] = []
    files, threads = _count_files(), threading.active_count()

    def work(seed: int) -> None:
        choose = np.random.default_rng(seed)
        while len(done) < images or time.monotonic() - began < seconds:
            _compress_and_compare(choose, len(done))
            done.append(time.monotonic() - began)

    with ThreadPoolExecutor(cores := lmzip.count_threads(0)) as executor:
        running = [executor.submit(work, seed) for seed in range(cores)]
        while not all(future.done() for future in running):
            memory.append((time.monotonic() - began, _resident(pid)))
            time.sleep(minute / 60)
        for future in running:
            future.result()
    end = time.monotonic() - began
    first = max(size for when, size in memory if when < minute)
    last = max(size for when, size in memory if when > end - minute)
    left = f"{_count_files() - files} files, {threading.active_count() - threads} threads more"
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    print(f"{len(done)} images in {end:.0f} s on {cores} cores, {first >> 20} MB in the first "
          f"minute, {last >> 20} MB in the last; {left}, {len(children)} processes")  # fmt: skip
    assert last < 1.2 * first
    assert (_count_files(), threading.active_count(), children) == (files, threads, [])
    return Counter({"images": len(done)})


def _compress_and_compare(choose: np.random.Generator, number: int) -> None:
    """Compress pictures of several sizes and kinds, and every so often an archive of them."""
    height, width = (int(side) for side in choose.integers(8, 72, 2))
    kind, channels = ((np.uint8, 3), (np.uint8, 1), (np.uint16, 3), (np.uint8, 4))[number % 4]
    steps = choose.integers(-2, 3, (height, width, channels))
    pixels = np.cumsum(steps, axis=1).astype(kind)
    if number % 50:
        assert np.array_equal(lmzip.decompress(lmzip.compress(pixels, threads=1)), pixels)
    else:
        batch = np.stack([pixels, pixels[::-1]])
        with lmzip.open_archive(lmzip.compress_batch(batch, threads=1), threads=1) as archive:
            assert np.array_equal(np.stack(list(archive)), batch)


def _count_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check_together() -> Counter[str]:
    """Compress one image from 8 threads and from 4 forked processes: the same bytes."""
    pixels = draw_smooth(0, 90, 80)
    expected = lmzip.compress(pixels, threads=1)
    with ThreadPoolExecutor(8) as executor:
        for data in executor.map(lambda _: lmzip.compress(pixels, threads=1), range(16)):
            assert data == expected
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            same = lmzip.compress(pixels, threads=1) == expected
            back = np.array_equal(lmzip.decompress(expected, threads=1), pixels)
            os._exit(0 if same and back else 1)
        children.append(pid)
    for pid in children:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return Counter({"calls from threads": 16, "forked processes": 4})


def main() -> None:
    name, *numbers = sys.argv[1:]
    counts = [int(number) for number in numbers]
    if name == "bits":
        outcomes = check_bits()
    elif name == "mutations":
        outcomes = check_mutations(*counts or [10_000])
    elif name == "kills":
        outcomes = check_kills(*counts or [100])
    elif name == "files":
        outcomes = check_files(*counts or [200_000])
    elif name == "load":
        images, seconds = (*counts, 5000, 600)[:2] if len(counts) < 2 else counts
        outcomes = check_load(images, seconds)
    else:
        outcomes = check_together()
    print(f"{name}: {sum(outcomes.values())} tried:", dict(outcomes))


if __name__ == "__main__":
    main()
