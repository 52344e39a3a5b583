"""The report: one page that stands alone, tells everything, and looks right in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.cli_runner import Cli, make_picture
from support.networks import smooth_images

from lmzip.cli.bench.charts import (
    HEIGHT,
    WIDTH,
    Point,
    Series,
    draw_histogram,
    draw_scatter,
    place_labels,
    round_bounds,
    ticks_between,
)
from lmzip.cli.bench.examples import Example, Examples, find_reference
from lmzip.cli.bench.machine import describe_machine
from lmzip.cli.bench.measure import ARCHIVE, FILES, Measurement, Problem
from lmzip.cli.bench.page import render_page
from lmzip.cli.bench.results_table import Benchmark
from lmzip.cli.drawing import make_thumbnail, to_png

IMAGES = 40
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open pages in")


def measurement(codec: str, bpd: float, speed: float, **fields: object) -> Measurement:
    sizes = np.random.default_rng(len(codec)).normal(bpd, 0.5, IMAGES) * 3072 / 8
    sizes = np.maximum(sizes, 100).astype(int)
    values: dict[str, object] = {
        "codec": codec,
        "form": FILES,
        "library": "some library 1.0",
        "threads": 2,
        "images": IMAGES,
        "samples": IMAGES * 3072,
        "raw_size": IMAGES * 3072,
        "size": int(sizes.sum()),
        "model_bits": None,
        "encode_rate": speed,
        "decode_rate": 2 * speed,
        "peak_memory": 12_000_000,
        "sizes": tuple(sizes.tolist()),
        "image_samples": (3072,) * IMAGES,
    }
    return Measurement(**(values | fields))  # type: ignore[arg-type]


def example(number: int, *, size: int = 1200, bits: bool = True) -> Example:
    picture = make_picture("RGB", 32, 32, seed=number)
    costs = np.random.default_rng(number).random((32, 32)) * 24
    thumbnail = to_png(make_thumbnail(picture, 256))
    name = f"image-{number}.png"
    return Example(name, 32, 32, "RGB", size, 1500, thumbnail, costs if bits else None)


@pytest.fixture
def benchmark_rows() -> Benchmark:
    failure = Problem("photo <16>.png", "cannot hold L16")
    nothing = {"size": None, "encode_rate": None, "decode_rate": None}
    rows = [
        measurement("PNG", 5.9, 15e6),
        measurement("WebP m4", 4.7, 2e6),
        measurement("JPEG XL e7", 4.1, 1.2e6),
        measurement("JPEG XL e9", 4.08, 0.3e6),
        measurement("QOI", 6.4, 80e6, failures=(failure,), **nothing),
        measurement("fake", 6.0, 20e6, mismatches=(Problem("#3", "1 pixel changed"),)),
        measurement("lmzip", 3.3, 0.02e6, model_bits=3.2 * IMAGES * 3072, is_lmzip=True),
        measurement(
            "lmzip archive", 3.21, 0.2e6, model_bits=3.2 * IMAGES * 3072, is_lmzip=True,
            form=ARCHIVE, sizes=None, image_samples=(),
        ),
    ]  # fmt: skip
    return Benchmark("CIFAR-10 <test>", IMAGES, describe_machine(2), rows)


@pytest.fixture
def page(benchmark_rows: Benchmark) -> str:
    largest = [example(number) for number in range(4)]
    smallest = [example(4, size=1600), example(5, size=1510, bits=False)]
    examples = Examples("lmzip", "JPEG XL e9", largest, smallest, 24.0)
    return render_page(benchmark_rows, examples)


class Outline(HTMLParser):
    """Collects texts and attributes, and checks that tags are closed in turn."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def test_the_page_needs_nothing_else(page: str) -> None:
    outline = Outline(page)
    for tag, attributes in outline.tags:
        assert tag not in ("script", "link", "iframe", "object", "base")
        for key, value in attributes.items():
            if key in ("src", "href", "data", "srcset"):
                assert (value or "").startswith("data:image/png;base64,")
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"https?://", page)


def test_names_cannot_become_markup(page: str) -> None:
    text = "".join(Outline(page).texts)
    assert "CIFAR-10 <test>" in text
    assert "photo <16>.png" in text
    assert "<test>" not in page


def test_failures_and_lies_are_shown(page: str, benchmark_rows: Benchmark) -> None:
    text = " ".join(Outline(page).texts)
    assert f"fails on 1 of {IMAGES}" in text
    assert "NO, 1 changed" in text
    assert "cannot hold L16" in text
    assert "1 that failed on an image are not shown" in text
    for row in benchmark_rows.rows:
        assert row.codec in text


def test_every_number_says_what_it_was_measured_on(page: str) -> None:
    machine, text = describe_machine(2), " ".join(Outline(page).texts)
    assert machine.processor in text
    assert all(version in text for version in machine.versions.values())
    assert machine.date in text


def test_the_summary_is_over_all_bytes(page: str, benchmark_rows: Benchmark) -> None:
    ours, theirs = benchmark_rows.find("lmzip"), benchmark_rows.find("JPEG XL e9")
    assert ours is not None
    assert theirs is not None
    share = 1 - (ours.size or 0) / (theirs.size or 1)
    assert f"<strong>{share:.1%} smaller</strong> than JPEG XL e9" in page


def test_the_smallest_peer_is_the_reference(benchmark_rows: Benchmark) -> None:
    benchmark_rows.rows[:] = [row for row in benchmark_rows.rows if "XL" not in row.codec]
    reference = find_reference(benchmark_rows)
    assert reference is not None
    assert reference.codec == "WebP m4"
    assert "WebP m4 in total" in render_page(benchmark_rows, None)


def test_a_page_of_peers_alone_can_be_made(benchmark_rows: Benchmark) -> None:
    benchmark_rows.rows[:] = [row for row in benchmark_rows.rows if not row.is_lmzip]
    page = render_page(benchmark_rows, None)
    assert "Where the bits go" not in page
    Outline(page)


def test_the_command_writes_the_page(cli: Cli) -> None:
    np.save("images.npy", smooth_images(3, 12, 16, 3))
    result = cli(
        "bench", "images.npy", "--model", cli.model, "--peers", "png", "--no-archive", "-T", 1,
        "--report", "out",
    )  # fmt: skip
    assert result.code == 0, result.err
    page = Path("out/index.html").read_text()
    images = [a for tag, a in Outline(page).tags if tag == "img"]
    maps = [a for a in images if (a["alt"] or "").startswith("bit map of")]
    assert len(maps) == 3
    numbers = json.loads(Path("out/results.json").read_text())
    assert numbers["names"] == ["#0", "#1", "#2"]
    assert [len(row["sizes"]) for row in numbers["codecs"]] == [3, 3]
    assert result.out.splitlines()[-1] == "report: out/index.html"


def boxes(points: list[tuple[str, float, float]]) -> list[tuple[float, float, float, float]]:
    found = []
    for (text, _, _), (x, y, anchor) in zip(points, place_labels(points), strict=True):
        width = 6.1 * len(text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        found.append((left, y - 11, left + width, y + 3))
    return found


def test_labels_do_not_cover_each_other() -> None:
    state = np.random.default_rng(0)
    for _ in range(20):
        spread = state.random((9, 2)) * [300, 180] + [60, 30]
        found = boxes([(f"codec number {i}", x, y) for i, (x, y) in enumerate(spread.tolist())])
        meeting = [
            (a, b)
            for i, a in enumerate(found)
            for b in found[:i]
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
        ]
        assert len(meeting) <= 1
        assert all(box[0] >= 0 and box[2] <= WIDTH and box[3] <= HEIGHT for box in found)


def test_points_lie_where_their_values_are() -> None:
    points = [Point("a", 0.1, 3.0, "ours"), Point("b", 10.0, 5.0, "peer")]
    circles = [
        (float(a["cx"] or 0), float(a["cy"] or 0))
        for tag, a in Outline(draw_scatter(points, "t", "x", "y")).tags
        if tag == "circle"
    ]
    assert circles[0][0] < circles[1][0]  # faster is further right
    assert circles[0][1] > circles[1][1]  # more bits are higher up
    one = draw_scatter([Point("alone", 1.0, 4.0, "ours")], "t", "x", "y")
    assert "nan" not in one


def test_histograms_count_every_image() -> None:
    chart = draw_histogram([Series("a", [3.0, 3.0, 3.1, 5.0], "ours")], "t", "x")
    assert "nan" not in chart
    assert draw_histogram([Series("a", [4.0, 4.0], "ours")], "t", "x")


@pytest.mark.parametrize(
    ("low", "high"), [(0, 7), (2.91, 6.43), (4.0, 4.0), (-12, 30), (0.001, 0.002)]
)
def test_axes_are_round_and_contain_their_values(low: float, high: float) -> None:
    first, last = round_bounds(low, high)
    assert first <= low <= high <= last
    assert first >= 0 or low < 0
    ticks = ticks_between(first, last)
    assert 2 <= len(ticks) <= 12
    assert all(first - 1e-9 <= tick <= last + 1e-9 for tick in ticks)


def browse(page: Path, folder: Path, *options: str) -> str:
    """Open a page in a real browser, and return what its document became."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return finished.stdout


PROBE = """<!doctype html><body style="margin:0">
<iframe id="page" style="width:{width}px;height:844px;border:0" srcdoc="{source}"></iframe>
<pre id="found"></pre>
<script>
onload = () => {{
  const doc = document.getElementById("page").contentDocument, root = doc.documentElement;
  const visible = e => e.getBoundingClientRect().width * e.getBoundingClientRect().height > 0;
  const all = selector => [...doc.querySelectorAll(selector)];
  const outside = all("main > *, main > * > *, .card, svg").filter(
    e => e.getBoundingClientRect().right > root.clientWidth + 1);
  document.getElementById("found").textContent = JSON.stringify({{
    title: doc.title,
    width: root.clientWidth,
    scrollWidth: root.scrollWidth,
    outside: outside.map(e => e.tagName + "#" + e.id),
    rows: all("tbody tr").map(e => e.cells[0].innerText),
    bad: all("td.bad").map(e => e.innerText),
    badColour: getComputedStyle(all("td.bad")[0]).color,
    goodColour: getComputedStyle(all("td.good")[0]).color,
    images: all("img").map(e => [e.complete && e.naturalWidth > 0 && visible(e), e.alt]),
    charts: all("svg").map(e => [visible(e), e.getAttribute("aria-label")]),
    points: all("svg")[0].querySelectorAll("circle").length,
    pairs: all(".pair").map(e => {{
      const [a, b] = [...e.children].map(c => c.getBoundingClientRect());
      return a.top === b.top && a.right <= b.left + 1; }}),
    text: doc.body.innerText,
    fonts: Math.min(...all("main *").map(e => parseFloat(getComputedStyle(e).fontSize))),
    columns: new Set(all(".card").map(e => Math.round(e.getBoundingClientRect().left))).size,
  }});
}};
</script>"""


@needs_browser
@pytest.mark.parametrize(("width", "columns"), [(390, 1), (1280, 4)])
def test_it_looks_right_on_a_phone_and_on_a_desk(
    page: str, tmp_path: Path, width: int, columns: int
) -> None:
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width, source=html.escape(page)))
    document = browse(probe, tmp_path, "--window-size=1400,1000", "--dump-dom")
    match = re.search(r'<pre id="found">(.*?)</pre>', document, re.DOTALL)
    assert match, document[-2000:]
    found = json.loads(html.unescape(match[1]))

    assert found["title"] == "Lossless codecs on CIFAR-10 <test>"
    assert found["width"] == width
    assert found["scrollWidth"] == width  # nothing makes the page itself scroll sideways
    assert found["outside"] == []
    assert found["rows"][0] == "PNG"
    assert "lmzip archive" in found["rows"]
    assert found["bad"] == [f"fails on 1 of {IMAGES}", "NO, 1 changed"]
    assert found["badColour"] != found["goodColour"]
    assert all(shown for shown, _ in found["images"]), found["images"]
    assert sum(alt.startswith("bit map of") for _, alt in found["images"]) == 5
    assert [shown for shown, _ in found["charts"]] == [True] * 4
    assert found["points"] == 7  # all codecs but the one that failed
    assert all(found["pairs"])
    assert "stored by a classical method" in found["text"]
    assert "6.7% larger" in found["text"]
    assert found["fonts"] >= 10
    assert found["columns"] == columns


@needs_browser
def test_it_can_be_read_in_light_and_in_dark(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page)
    backgrounds = []
    for number, scheme in enumerate(("1", "0")):  # light, dark
        target = tmp_path / f"{number}.png"
        browse(
            path, tmp_path, "--window-size=1280,900", f"--screenshot={target}",
            f"--blink-settings=preferredColorScheme={scheme}",
        )  # fmt: skip
        with Image.open(target) as image:
            pixels = np.asarray(image.convert("L"), float)
        assert pixels.shape == (900, 1280)
        backgrounds.append(np.median(pixels))
        assert abs(pixels - np.median(pixels)).max() > 120  # the text stands out
    assert backgrounds[0] > 200
    assert backgrounds[1] < 60
