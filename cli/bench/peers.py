"""Other lossless codecs to compare lmzip with: those of Pillow and imagecodecs, and commands.

A peer gets exactly the samples that lmzip gets and must return exactly these; what it cannot hold,
it must refuse. Each runs on one thread, at its strongest ordinary setting unless its name says
otherwise.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image, features

from lmzip import InputError, LmzipError, Mode, Picture, Samples
from lmzip.cli.bench.data_sets import simplify
from lmzip.formats import read_picture, to_true_colour, write_picture

_PLACEHOLDER = re.compile(r"\{(input|output)(?::(\w+))?\}")
_PILLOW_MODES = ("L", "LA", "RGB", "RGBA", "L16")


class PeerError(LmzipError):
    """A codec cannot hold a picture, or did not do what it was asked to."""


class Peer(ABC):
    """A codec for single pictures. Instances are sent to other processes."""

    name: str
    modes: ClassVar[tuple[str, ...]] = ("L", "LA", "RGB", "RGBA")

    @property
    @abstractmethod
    def library(self) -> str:
        """The library that does the work, with its version."""

    @abstractmethod
    def encode(self, picture: Picture) -> bytes:
        """Return the picture's file."""

    @abstractmethod
    def decode(self, data: bytes, mode: Mode) -> Samples:
        """Return the samples (H, W, C) of a file that was made from a picture of a mode."""

    def check_mode(self, mode: Mode) -> None:
        """Raise PeerError if the codec cannot hold pictures of a mode."""
        if mode.name not in self.modes:
            raise PeerError(f"cannot hold {mode.name}")


@dataclass(frozen=True)
class PngPeer(Peer):
    """PNG, optimised by Pillow; 16-bit colour by imagecodecs."""

    name: str = "PNG"
    modes: ClassVar[tuple[str, ...]] = (*_PILLOW_MODES, "LA16", "RGB16", "RGBA16")

    @property
    def library(self) -> str:
        return f"Pillow, zlib {features.version('zlib')}"

    def encode(self, picture: Picture) -> bytes:
        self.check_mode(picture.mode)
        if picture.mode.name not in _PILLOW_MODES:
            data: bytes = _imagecodecs().png_encode(picture.samples, level=9)
            return data
        return _save(_squeeze(picture.samples), "PNG", optimize=True)

    def decode(self, data: bytes, mode: Mode) -> Samples:
        if mode.name not in _PILLOW_MODES:
            return _add_axis(_imagecodecs().png_decode(data))
        return _add_axis(_load(data, "PNG"))


@dataclass(frozen=True)
class WebpPeer(Peer):
    """Lossless WebP, colours under transparent pixels kept; on small images method 4 beats 6."""

    name: str
    method: int

    @property
    def library(self) -> str:
        return f"Pillow, libwebp {features.version('webp')}"

    def encode(self, picture: Picture) -> bytes:
        self.check_mode(picture.mode)
        settings = {"lossless": True, "quality": 100, "method": self.method, "exact": True}
        return _save(_widen(picture.samples), "WEBP", **settings)

    def decode(self, data: bytes, mode: Mode) -> Samples:
        return _narrow(_add_alpha(_load(data, "WEBP"), mode), mode)


@dataclass(frozen=True)
class ImagecodecsPeer(Peer):
    """A codec of imagecodecs: `codec` is its name there, `settings` are the encoder's."""

    name: str
    codec: str
    settings: tuple[tuple[str, Any], ...] = ()
    threads: bool = False  # whether its functions take a number of threads
    told_depth: bool = False  # whether it is told how many of 16 bits are in use: it gains by that

    modes: ClassVar[tuple[str, ...]] = ("L", "LA", "RGB", "RGBA", "L16", "LA16", "RGB16", "RGBA16")

    @property
    def library(self) -> str:
        version: str = getattr(_imagecodecs(), f"{self.codec}_version")()
        return version

    def encode(self, picture: Picture) -> bytes:
        self.check_mode(picture.mode)
        settings = dict(self.settings)
        if self.threads:
            settings["numthreads"] = 1
        if self.told_depth and picture.mode.bits == 16:
            settings["bitspersample"] = max(9, int(picture.samples.max()).bit_length())
        encode = getattr(_imagecodecs(), f"{self.codec}_encode")
        return bytes(encode(_squeeze(picture.samples), **settings))

    def decode(self, data: bytes, mode: Mode) -> Samples:
        settings = {"numthreads": 1} if self.threads else {}
        decode = getattr(_imagecodecs(), f"{self.codec}_decode")
        return _add_alpha(_add_axis(decode(data, **settings)), mode)


@dataclass(frozen=True)
class QoiPeer(ImagecodecsPeer):
    """QOI, which knows RGB and RGBA: grey is stored as colour."""

    name: str = "QOI"
    codec: str = "qoi"
    modes: ClassVar[tuple[str, ...]] = Peer.modes

    def encode(self, picture: Picture) -> bytes:
        self.check_mode(picture.mode)
        return bytes(_imagecodecs().qoi_encode(_widen(picture.samples)))

    def decode(self, data: bytes, mode: Mode) -> Samples:
        return _narrow(_imagecodecs().qoi_decode(data), mode)


@dataclass(frozen=True)
class CommandPeer(Peer):
    """Programs that encode and decode files, given as templates.

    `{input}` of the encoder is a PNG file, `{output}` of the decoder may be any format that lmzip
    reads; `{input:ppm}` and `{output:jxl}` choose an ending, and with it the format of the input.
    Times include starting the programs, reading and writing.
    """

    name: str
    encoder: str
    decoder: str
    modes: ClassVar[tuple[str, ...]] = (
        "L",
        "LA",
        "RGB",
        "RGBA",
        "CMYK",
        "L16",
        "LA16",
        "RGB16",
        "RGBA16",
    )

    def __post_init__(self) -> None:
        for template in (self.encoder, self.decoder):
            found = {match[1] for match in _PLACEHOLDER.finditer(template)}
            if found != {"input", "output"}:
                raise InputError(f"{template!r} must mention {{input}} and {{output}}")

    @property
    def library(self) -> str:
        return f"command {shlex.split(self.encoder)[0]}"

    def encode(self, picture: Picture) -> bytes:
        with tempfile.TemporaryDirectory(prefix="lmzip-bench-") as folder:
            source = Path(folder, f"picture.{self._suffix('input', self.encoder) or 'png'}")
            source.write_bytes(write_picture(picture, source.suffix)[0])
            target = Path(folder, f"coded{self._coded_suffix}")
            _run_command(self.encoder, source, target)
            return target.read_bytes()

    def decode(self, data: bytes, mode: Mode) -> Samples:
        with tempfile.TemporaryDirectory(prefix="lmzip-bench-") as folder:
            source = Path(folder, f"coded{self._coded_suffix}")
            source.write_bytes(data)
            target = Path(folder, f"picture.{self._suffix('output', self.decoder) or 'png'}")
            _run_command(self.decoder, source, target)
            return _conform(simplify(read_picture(target.read_bytes()).picture), mode)

    @property
    def _coded_suffix(self) -> str:
        suffix = self._suffix("output", self.encoder) or self._suffix("input", self.decoder)
        return f".{suffix}" if suffix else ""

    @staticmethod
    def _suffix(kind: str, template: str) -> str:
        return next((m[2] or "" for m in _PLACEHOLDER.finditer(template) if m[1] == kind), "")


def _run_command(template: str, source: Path, target: Path) -> None:
    paths = {"input": str(source), "output": str(target)}
    words = [_PLACEHOLDER.sub(lambda m: paths[m[1]], word) for word in shlex.split(template)]
    try:
        finished = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeerError(f"{words[0]}: {error.strerror}") from None
    if finished.returncode:
        said = finished.stderr.strip().splitlines()
        why = f": {said[-1]}" if said else ""
        raise PeerError(f"{words[0]} ended with code {finished.returncode}{why}")
    if not target.is_file():
        raise PeerError(f"{words[0]} wrote no output")


_LOSSLESS_JXL = (("lossless", True), ("usecontainer", False))
_JPEG2000 = (("level", 0), ("reversible", True), ("mct", True), ("codecformat", "j2k"))
_AVIF = (("level", 100), ("speed", 6), ("pixelformat", "444"), ("codec", "aom"))
PEERS: dict[str, Peer] = {
    "png": PngPeer(),
    "webp4": WebpPeer("WebP m4", 4),
    "webp6": WebpPeer("WebP m6", 6),
    **{
        f"jxl{effort}": ImagecodecsPeer(
            f"JPEG XL e{effort}", "jpegxl", (("effort", effort), *_LOSSLESS_JXL), True, True
        )
        for effort in (3, 6, 7, 9)
    },
    "jpegls": ImagecodecsPeer("JPEG-LS", "jpegls", (("level", 0),)),
    "jpeg2000": ImagecodecsPeer("JPEG 2000", "jpeg2k", _JPEG2000, True, True),
    "qoi": QoiPeer(),
    "avif": ImagecodecsPeer("AVIF", "avif", _AVIF, True),
}


def is_installed(peer: Peer) -> bool:
    """Return whether the library of a peer is there and has the codec."""
    if isinstance(peer, ImagecodecsPeer):
        if importlib.util.find_spec("imagecodecs") is None:
            return False
        codec = getattr(_imagecodecs(), peer.codec.upper(), None)
        return bool(getattr(codec, "available", False))
    return not isinstance(peer, WebpPeer) or bool(features.check("webp"))


def choose_peers(names: str) -> list[Peer]:
    """Return the peers of a list such as "png,jxl7"; "all" are those installed, "none" none.

    PNG comes first, since the others are compared with it. Raises InputError.
    """
    if names == "all":
        return [peer for peer in PEERS.values() if is_installed(peer)]
    wanted = [name for name in names.split(",") if name not in ("", "none")]
    for name in wanted:
        if name not in PEERS:
            raise InputError(f"unknown peer {name!r}: choose from {', '.join(PEERS)}")
        if not is_installed(PEERS[name]):
            raise InputError(f"{name} is not installed: pip install lmzip[bench]")
    return [peer for name, peer in PEERS.items() if name in wanted]


def _imagecodecs() -> Any:
    return importlib.import_module("imagecodecs")


def _squeeze(samples: Samples) -> Samples:
    """Drop the channel axis of grey pictures, as most libraries expect."""
    return np.ascontiguousarray(samples[..., 0] if samples.shape[2] == 1 else samples)


def _add_axis(samples: Samples) -> Samples:
    return samples[..., None] if samples.ndim == 2 else samples


def _add_alpha(samples: Samples, mode: Mode) -> Samples:
    """Give back the alpha channel that some encoders leave out where all is opaque."""
    if mode.channels in (1, 3) or samples.shape[2] in (2, 4):
        return samples
    opaque = np.full(samples.shape[:2], np.iinfo(samples.dtype).max, samples.dtype)
    return np.dstack([samples, opaque])


def _widen(samples: Samples) -> Samples:
    """Repeat grey as red, green and blue."""
    channels = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[samples.shape[2]]
    return np.ascontiguousarray(samples[..., channels])


def _narrow(samples: Samples, mode: Mode) -> Samples:
    """Undo `_widen`; raises PeerError if the colours are not grey any more."""
    if mode.channels >= 3:
        return samples
    if (samples[..., :3] != samples[..., :1]).any():
        raise PeerError("grey came back as colour")
    return samples[..., [0] if mode.channels == 1 else [0, 3]]


def _conform(picture: Picture, mode: Mode) -> Samples:
    """Bring a picture that was stored in a narrower mode (grey, no alpha) back to its own."""
    if picture.mode == mode or mode.name == "CMYK":
        return picture.samples
    samples = to_true_colour(picture).samples
    return _narrow(_add_alpha(samples, mode), mode)


def _save(samples: Samples, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(samples).save(file, kind, **settings)
    return file.getvalue()


def _load(data: bytes, kind: str) -> Samples:
    with Image.open(io.BytesIO(data), formats=[kind]) as image:
        return np.asarray(image)
