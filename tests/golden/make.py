"""How the golden files were made. They decode for ever: this script never writes over one.

    python tests/golden/make.py

The files of version 1 of the format are here, those of version 2 in v2. A file that is to be added
gets a line in `make_files`; the script writes what is missing, in the version that lmzip writes,
and lists the checksums in checksums.json beside them. The model is made first and kept likewise,
since another version of torch would draw other numbers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from support.animations import show  # noqa: E402
from support.networks import (  # noqa: E402
    ANY_ORDER,
    compact_network,
    custom_order,
    draw_tuned,
    smooth_images,
    write_bank,
    write_model,
)
from support.skeletons import FILES  # noqa: E402

import lmzip  # noqa: E402
from lmzip import classical  # noqa: E402
from lmzip.classical import DEFLATE, JPEG2000, PNG, RAW, WEBP  # noqa: E402
from lmzip.container.checksums import checksum_of_samples  # noqa: E402
from lmzip.container.image_file import Chunk, write_image  # noqa: E402
from lmzip.container.image_header import ImageHeader  # noqa: E402
from lmzip.container.scaling import Scaling  # noqa: E402
from lmzip.container.scaling_choice import describe_values  # noqa: E402
from lmzip.container.tuning_bank import tune_by_bank  # noqa: E402
from lmzip.formats import describe_frames, read_frames, write_frames  # noqa: E402
from lmzip.network.adaptation import BY_ERRORS, BY_FEATURES, Manner  # noqa: E402
from lmzip.network.registry import Choice, Model, load_model  # noqa: E402
from lmzip.order.orders import observed_first, parse_order  # noqa: E402
from lmzip.picture import MODES, Mode, Picture, Samples  # noqa: E402
from lmzip.selection import list_choices  # noqa: E402
from lmzip.stream.precision import SQUARE_ROOT, Precision  # noqa: E402

MODEL = FOLDER / "golden.safetensors"
CURRENT = FOLDER / "v2"
HEIGHT, WIDTH = 12, 14


def draw_picture(mode: str, height: int = HEIGHT, width: int = WIDTH) -> Picture:
    """Draw a picture whose channels are alike, of any mode."""
    kind = MODES[mode]
    samples = smooth_images(1, height, width, kind.channels)[0].astype(np.int64)
    if kind.bits != 8:
        samples = samples * 257 if kind.bits == 16 else samples > 127
    metadata = {"PLTE": bytes(range(256)) * 3} if mode == "P" else {}
    return Picture(samples.astype(kind.dtype), kind, metadata)


def draw_deep(
    mode: str, depth: int, height: int = HEIGHT, width: int = WIDTH, flat: int = 0
) -> Picture:
    """Draw a picture of a 16-bit mode that uses so many bits, some rows of which are constant."""
    plain = draw_picture(mode, height, width)
    noise = np.random.default_rng(depth).integers(0, 200, plain.samples.shape)
    samples = ((plain.samples.astype(np.int64) * 250 // 256 + noise) >> (16 - depth)).astype(
        np.uint16
    )
    samples[:flat] = samples[0, 0]
    return Picture(samples, plain.mode)


def by_network(picture: Picture, order: Any = "raster", tile: int = 512) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (tile, tile))
        return lmzip.compress_picture(picture, lmzip.Options(model=str(MODEL), order=order))


def by_tuning(picture: Picture, tuned: Model | None = None) -> bytes:
    tuned = tuned or draw_tuned(load_model(MODEL))
    options = lmzip.Options(model=str(tuned.path))
    return lmzip.compress_picture(picture, options, tuned=[tuned])


def adaptively(manner: Manner, make: Callable[[], bytes]) -> bytes:
    """Let networks adapt in a manner to tiles of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tile_coding.LARGE", 1)
        patch.setattr("lmzip.container.tile_coding.choose_manner", lambda _: manner)
        return make()


def by_number(picture: Picture) -> bytes:
    """Name the model as if it were a released one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.network.registry.WEIGHTS", FOLDER)
        patch.setattr("lmzip.network.registry.RELEASED", {200: "golden"})
        return lmzip.compress_picture(picture, lmzip.Options(model="golden"))


def by_method(picture: Picture, method: int, predictors: Sequence[int] = (0, 1, 2, 3)) -> bytes:
    """Store a picture by one classical method and the last predictor, though others be smaller."""
    samples, mode = picture.samples, picture.mode
    encoders: dict[int, Callable[[], Iterable[bytes]]] = {
        RAW: lambda: [classical._encode_raw(samples, mode)],
        WEBP: lambda: classical._encode_webp(samples, mode, True),
        PNG: lambda: [classical._encode_png(samples, mode, True)],
        DEFLATE: lambda: classical._encode_deflate(samples, predictors, 9),
        JPEG2000: lambda: classical._encode_jpeg2000(samples, mode),
    }
    *_, data = encoders[method]()
    header = ImageHeader(mode, picture.height, picture.width, (1, 1), None, picture.metadata)
    return write_image(header, [Chunk(method, data)], checksum_of_samples(samples))


def deeply(make: Callable[[], bytes], **chosen: Any) -> bytes:
    """Scale deep samples as their values ask for, or as is chosen; not by what a sample costs."""

    def scale(images: Samples, _crops: Samples, mode: Mode, *_: Any) -> tuple[Scaling, ...]:
        plain = [describe_values(images[..., group]) for group in mode.groups if mode.deep]
        return tuple(replace(p, precision=replace(p.precision, **chosen)) for p in plain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.image_writer.choose_scalings", scale)
        patch.setattr("lmzip.container.archive_writer.choose_scalings", scale)
        return make()


def with_listed_values() -> bytes:
    listed = tuple(i * i for i in range(256))
    scaling = Scaling(Precision(8), listed=listed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.image_writer.choose_scalings", lambda *_: (scaling,))
        samples = scaling.restore(draw_deep("L16", 8).samples)
        return by_network(Picture(samples, MODES["L16"]))


def spread(picture: Picture) -> Picture:
    return Picture((picture.samples * 16 + 1000).astype(np.uint16), picture.mode)


def make_deep_archive() -> bytes:
    """Pack batches of two deep modes, and one of 8 bits."""
    modes = ("RGB16", "RGB16", "LA16", "RGB16", "LA16")
    pictures = [draw_deep(mode, 10 + number, 9, 8) for number, mode in enumerate(modes)]
    pictures.append(draw_picture("RGB", 9, 8))
    named = [(f"folder/{number}.png", picture) for number, picture in enumerate(pictures)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 150)
        return lmzip.pack_archive(named, lmzip.Options(model=str(MODEL)))


def with_flat_alpha() -> bytes:
    """Let the network code the colours, and a classical method the alpha, which is constant."""
    picture = draw_picture("RGBA", 40, 42)
    picture.samples[..., 3] = 200
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.network.registry.WEIGHTS", FOLDER)
        # Not all of it by WebP, though that would be smaller.
        patch.setattr("lmzip.container.image_writer.CLOSE", 0)
        patch.setattr("lmzip.container.image_writer.CLOSE_DRAWING", 0)
        patch.setattr("lmzip.container.image_writer.HOPELESS", 100)
        patch.setattr("lmzip.container.tile_coding.FLAT", 4)  # less than the colours take
        return lmzip.compress_picture(picture)


def with_metadata(picture: Picture) -> Picture:
    return Picture(picture.samples, picture.mode, {"TEXT": b"a note", "GAMA": b"1234"})


def observe(height: int, width: int) -> Any:
    """Return an order in which a hidden square comes last."""
    hidden = np.zeros((height, width), bool)
    hidden[3:8, 4:11] = True
    ranks = observed_first(parse_order("s-curve").ranks(height, width), hidden)
    return parse_order(np.argsort(ranks, axis=None))


def list_shallow_choices(options: lmzip.Options, mode: Mode, tuned: Any = ()) -> list[Choice]:
    return [] if mode.deep else list_choices(options, mode, tuned)


def make_archive(tuned: Model | None = None) -> bytes:
    """Pack batches of two shapes and modes, a file of 16 bits, names and metadata.

    A tuned archive has a tuning that batches share with an image file.
    """
    named = []
    for number, mode in enumerate(("RGB", "RGB", "LA", "L16", "RGB", "LA", "P", "RGB")):
        size = (9, 8) if number != 4 else (5, 11)
        kind = draw_picture(mode, *size)
        samples = np.roll(kind.samples, number, axis=1)
        metadata = {**kind.metadata, **({"TEXT": b"a note"} if number % 3 == 0 else {})}
        named.append((f"folder/{number}.png", Picture(samples, kind.mode, metadata)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 150)
        for writer in ("archive_writer", "image_writer"):  # a classical method for the 16 bits
            patch.setattr(f"lmzip.container.{writer}.list_choices", list_shallow_choices)
        model = tuned.path if tuned else MODEL
        options = lmzip.Options(model=str(model), order="raster:flip")
        if not tuned:
            return lmzip.pack_archive(named, options)
        named[1] = ("folder/1.png", draw_picture("RGB", 12, 13))
        return lmzip.pack_archive(named, options, tuned=[tuned])


def make_frames(kind: str) -> bytes:
    """Pack the frames of one file, as `lmzip compress` does."""
    frames = read_frames(FILES[kind]())
    options = lmzip.Options(model=str(MODEL))
    return lmzip.pack_archive(((None, f) for f in frames), options, gather_metadata=True)


def make_archive_of_files() -> bytes:
    """Pack a picture between a document and an animation, as `lmzip compress --archive` does."""
    named: list[tuple[str | None, Picture]] = []
    for kind, name in (("tiff", "folder/a.tiff"), ("", "folder/b.png"), ("gif", "folder/c.gif")):
        frames = read_frames(FILES[kind]()) if kind else [with_metadata(draw_picture("RGB", 5, 6))]
        names = [name, *(f"{name}#{number}" for number in range(2, len(frames) + 1))]
        named += zip(names, frames, strict=True)
    return lmzip.pack_archive(named, lmzip.Options(model=str(MODEL)), gather_metadata=True)


def make_files() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name every golden file and say how it is made."""
    yield "rgb", lambda: by_network(draw_picture("RGB"))
    yield "grey", lambda: by_network(draw_picture("L"))
    yield "grey-alpha", lambda: by_network(draw_picture("LA"))
    yield "rgba", lambda: by_network(draw_picture("RGBA"))
    yield "cmyk", lambda: by_network(draw_picture("CMYK"))
    yield "one-pixel", lambda: by_network(draw_picture("RGB", 1, 1))
    yield "one-row", lambda: by_network(draw_picture("RGB", 1, 30))
    yield "tiles", lambda: by_network(draw_picture("RGBA", 20, 23), tile=9)
    yield "s-curve", lambda: by_network(draw_picture("RGB"), "s-curve")
    yield "hilbert", lambda: by_network(draw_picture("RGB"), "hilbert")
    yield "hilbert-odd", lambda: by_network(draw_picture("RGB", 13, 8), "hilbert:mirror")
    yield (
        "raster-transpose-rotate",
        lambda: by_network(draw_picture("RGB"), "raster:transpose-rotate"),
    )
    yield "custom-order", lambda: by_network(draw_picture("RGB"), custom_order(HEIGHT, WIDTH))
    yield "observed-first", lambda: by_network(draw_picture("RGB"), observe(HEIGHT, WIDTH))
    yield "flat-alpha", with_flat_alpha
    for mode in ("1", "L", "RGB", "RGBA"):
        yield f"webp-{mode}", partial(by_method, draw_picture(mode), WEBP)
        yield f"png-{mode}", partial(by_method, draw_picture(mode), PNG)
    yield "png-16-bit", lambda: by_method(draw_picture("L16"), PNG)
    yield "palette", lambda: by_method(draw_picture("P"), PNG)
    for mode in ("1", "CMYK", "LA16", "RGBA16"):
        yield f"raw-{mode}", partial(by_method, draw_picture(mode), RAW)
        yield f"deflate-{mode}", partial(by_method, draw_picture(mode), DEFLATE)
    for mode, predictor in (("L16", 16), ("LA16", 17), ("RGB16", 18), ("RGBA16", 19)):
        picture = draw_picture(mode)
        yield f"deflate-pixels-{mode}", partial(by_method, picture, DEFLATE, [predictor])
    for mode in ("L", "RGB", "L16"):
        yield f"jpeg2000-{mode}", partial(by_method, draw_picture(mode), JPEG2000)
    yield "archive", make_archive
    yield "numbered", lambda: by_number(draw_picture("RGB"))
    yield "metadata", lambda: by_network(with_metadata(draw_picture("RGBA")))
    yield "tuned", lambda: by_tuning(draw_picture("RGB"))
    yield "tuned-rgba", lambda: by_tuning(draw_picture("RGBA"))
    yield "tuned-archive", lambda: make_archive(draw_tuned(load_model(MODEL)))
    yield "deep-L16", partial(deeply, lambda: by_network(draw_deep("L16", 16)))
    yield "deep-LA16", partial(deeply, lambda: by_network(draw_deep("LA16", 13), "hilbert"))
    yield "deep-RGB16", partial(deeply, lambda: by_network(draw_deep("RGB16", 12)))
    yield (
        "deep-RGBA16",
        partial(deeply, lambda: by_network(draw_deep("RGBA16", 10, 20, 23), tile=9)),
    )
    yield (
        "deep-flat",
        partial(deeply, lambda: by_network(draw_deep("RGB16", 12, flat=9)), flatness=60000),
    )
    yield (
        "deep-square-root",
        partial(deeply, lambda: by_network(draw_deep("RGB16", 9)), curve=SQUARE_ROOT, sharpness=40),
    )
    yield "deep-spaced", partial(deeply, lambda: by_network(spread(draw_deep("L16", 11))))
    yield "deep-listed", with_listed_values
    yield "deep-tuned", partial(deeply, lambda: by_tuning(draw_deep("RGB16", 11)))
    yield "deep-archive", partial(deeply, make_deep_archive)
    large = 30, 44
    for name, manner in ("adaptive", BY_FEATURES), ("aware", BY_ERRORS):
        adapt = partial(adaptively, manner)
        yield name, partial(adapt, lambda: by_network(draw_picture("RGB", *large)))
        yield (
            f"{name}-tiles",
            partial(adapt, lambda: by_network(draw_picture("LA", 20, 23), tile=9)),
        )
        yield (
            f"{name}-s-curve",
            partial(adapt, lambda: by_network(draw_picture("RGBA", *large), "s-curve:mirror")),
        )
        yield f"{name}-tuned", partial(adapt, lambda: by_tuning(draw_picture("RGB", *large)))
    for kind in FILES:
        yield f"frames-{kind}", partial(make_frames, kind)
    yield "frames-archive", make_archive_of_files


def make_bank_files() -> Iterator[tuple[str, Callable[[Model], bytes]]]:
    """Yield files that name a tuning of a bank, by what codes them."""
    yield "image", lambda tuned: by_tuning(draw_picture("RGB"), tuned)
    yield "archive", make_archive


def make_banks(folder: Path) -> None:
    """Make a bank for the golden model, and files that need it.

    The bank is not beside the model: then other files would be coded with its tunings.
    """
    with tempfile.TemporaryDirectory() as place:
        model = load_model(shutil.copy(MODEL, place))
        shutil.copy(write_bank(model, (1, 2, 250)), folder)
        for name, make in make_bank_files():
            (folder / f"{name}.lmz").write_bytes(make(tune_by_bank(model, 2)))


def describe(data: bytes) -> dict[str, Any]:
    """Return the checksums of a file and of what it decodes to."""
    if lmzip.read_info(data).is_archive:
        with lmzip.open_archive(data, model=MODEL) as archive:
            pictures = archive.pictures(range(len(archive)))
    else:
        pictures = [lmzip.decompress_picture(data, model=MODEL)]
    shown = [list(describe_shown(file)) for file in restore_frames(pictures)]
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        **({"shown": shown} if shown else {}),
        "images": [
            {
                "mode": picture.mode.name,
                "shape": list(picture.samples.shape),
                "sha256": hash_of_samples(picture.samples),
                "metadata": {tag: block.hex() for tag, block in picture.metadata.items()},
            }
            for picture in pictures
        ],
    }


def restore_frames(pictures: Sequence[Picture]) -> Iterator[bytes]:
    """Yield the files of several frames that are among the pictures of an archive."""
    for number, picture in enumerate(pictures):
        if frames := describe_frames(picture.metadata):
            yield write_frames(pictures[number : number + frames.count])


def describe_shown(file: bytes) -> Iterator[dict[str, Any]]:
    """Yield what a viewer shows of each frame, and for how long."""
    for (width, height), pixels, time, loops, comment, *_ in show(file):
        yield {
            "shape": [height, width],
            "sha256": hashlib.sha256(pixels).hexdigest(),
            "milliseconds": time,
            "loops": loops,
            "comment": comment and comment.decode(),
        }


def hash_of_samples(samples: Samples) -> str:
    """Hash samples row by row; 16-bit ones are two bytes, the low one first."""
    little = samples.astype(samples.dtype.newbyteorder("<"))
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()


def main() -> None:
    """Make what is missing."""
    if not MODEL.exists():
        write_model(compact_network(orders=ANY_ORDER, name="golden"), FOLDER)
    listing = CURRENT / "checksums.json"
    checksums = json.loads(listing.read_text()) if listing.exists() else {}
    for name, make in make_files():
        path = CURRENT / f"{name}.lmz"
        if not path.exists():
            path.write_bytes(make())
            checksums[path.name] = describe(path.read_bytes())
    banks = FOLDER / "banks"
    if not banks.exists():
        banks.mkdir()
        make_banks(banks)
    listing.write_text(json.dumps(checksums, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
