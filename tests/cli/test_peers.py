"""Peers: each gives back exactly what it got, or refuses it by name."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from support.cli_runner import make_picture

from lmzip.cli.bench.peers import (
    PEERS,
    CommandPeer,
    ImagecodecsPeer,
    Peer,
    PeerError,
    choose_peers,
    is_installed,
)
from lmzip.errors import InputError
from lmzip.picture import MODES, Picture

COLOURS = ("L", "LA", "RGB", "RGBA", "L16", "LA16", "RGB16", "RGBA16")
# What the format itself, or the library's encoder, has no room for.
REFUSED = {
    "webp4": {"L16", "LA16", "RGB16", "RGBA16"},
    "webp6": {"L16", "LA16", "RGB16", "RGBA16"},
    "qoi": {"L16", "LA16", "RGB16", "RGBA16"},
    "avif": {"L16", "LA16", "RGB16", "RGBA16"},
    "jpegls": {"LA", "LA16"},
}
PYTHON = f"{sys.executable} -c"
COPY = f"{PYTHON} 'import shutil, sys; shutil.copy(*sys.argv[1:])' {{input}} {{output}}"


@pytest.fixture(params=PEERS)
def name(request: pytest.FixtureRequest) -> str:
    key: str = request.param
    if not is_installed(PEERS[key]):
        pytest.skip(f"{key} is not installed")
    return key


@pytest.mark.parametrize("mode", COLOURS)
def test_samples_come_back_or_are_refused(name: str, mode: str) -> None:
    peer, picture = PEERS[name], make_picture(mode, 11, 17)
    if mode in REFUSED.get(name, ()):
        with pytest.raises((PeerError, ValueError, RuntimeError)):
            peer.encode(picture)
        return
    data = peer.encode(picture)
    restored = peer.decode(data, picture.mode)
    assert restored.dtype == picture.samples.dtype
    assert np.array_equal(restored, picture.samples)


def test_colours_under_transparent_pixels_survive(name: str) -> None:
    picture = make_picture("RGBA", 9, 9)
    picture.samples[2:7, 2:7, 3] = 0
    peer = PEERS[name]
    assert np.array_equal(peer.decode(peer.encode(picture), picture.mode), picture.samples)


def test_opaque_alpha_survives(name: str) -> None:
    picture = make_picture("RGBA", 9, 9)
    picture.samples[..., 3] = 255
    peer = PEERS[name]
    assert np.array_equal(peer.decode(peer.encode(picture), picture.mode), picture.samples)


def test_cmyk_is_refused_rather_than_taken_for_alpha(name: str) -> None:
    with pytest.raises(PeerError, match="cannot hold CMYK"):
        PEERS[name].encode(make_picture("CMYK"))


def test_peers_have_different_names_and_name_their_library(name: str) -> None:
    assert [peer.name for peer in PEERS.values()].count(PEERS[name].name) == 1
    assert any(letter.isdigit() for letter in PEERS[name].library)


@pytest.mark.skipif(not is_installed(PEERS["jxl7"]), reason="imagecodecs is not installed")
def test_more_effort_makes_smaller_files() -> None:
    from support.networks import smooth_images

    picture = Picture(smooth_images(1, 96, 96, 3)[0], MODES["RGB"])
    sizes = [len(PEERS[f"jxl{effort}"].encode(picture)) for effort in (3, 7, 9)]
    assert sizes == sorted(sizes, reverse=True)


def test_lists_are_read() -> None:
    assert [peer.name for peer in choose_peers("webp4,png")] == ["PNG", "WebP m4"]
    assert choose_peers("none") == []
    assert PEERS["png"] in choose_peers("all")
    with pytest.raises(InputError, match="unknown peer 'gif'"):
        choose_peers("png,gif")


def test_a_codec_that_the_library_lacks_is_not_installed() -> None:
    peer = ImagecodecsPeer("new", "nosuchcodec")
    assert not is_installed(peer)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "RGB16"])
def test_commands_get_and_give_files(mode: str) -> None:
    picture = make_picture(mode)
    peer = CommandPeer("copy", COPY, COPY)
    data = peer.encode(picture)
    assert data[:4] == b"\x89PNG"
    assert np.array_equal(peer.decode(data, picture.mode), picture.samples)


def test_endings_choose_the_format_of_files() -> None:
    check = (
        f'{PYTHON} \'import shutil, sys; a, b = sys.argv[1:]; assert a.endswith(".ppm"); '
        'assert b.endswith(".abc"); shutil.copy(a, b)\' {input:ppm} {output:abc}'
    )
    back = COPY.replace("{output}", "{output:ppm}")
    picture = make_picture("RGB")
    peer = CommandPeer("ppm", check, back)
    data = peer.encode(picture)
    assert data[:2] == b"P6"
    assert np.array_equal(peer.decode(data, picture.mode), picture.samples)


def test_a_command_may_store_grey_colours_as_grey() -> None:
    grey = make_picture("L")
    picture = Picture(np.repeat(grey.samples, 3, axis=2), MODES["RGB"])
    as_grey = (
        f"{PYTHON} 'import sys; from PIL import Image; "
        'Image.open(sys.argv[1]).convert("L").save(sys.argv[2], "PNG")\' {input} {output}'
    )
    peer = CommandPeer("grey", as_grey, COPY)
    assert np.array_equal(peer.decode(peer.encode(picture), picture.mode), picture.samples)
    colourful = make_picture("RGB")
    assert not np.array_equal(
        peer.decode(peer.encode(colourful), colourful.mode), colourful.samples
    )


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (f"{PYTHON} 'raise SystemExit(\"no luck\")' {{input}} {{output}}", "code 1: no luck"),
        (f"{PYTHON} pass {{input}} {{output}}", "wrote no output"),
        ("/nonexistent/program {input} {output}", "No such file"),
    ],
)
def test_a_command_that_does_not_work_is_an_error(template: str, message: str) -> None:
    peer: Peer = CommandPeer("bad", template, COPY)
    with pytest.raises(PeerError, match=message):
        peer.encode(make_picture())
    peer = replace(CommandPeer("bad", COPY, COPY), decoder=template)
    with pytest.raises(PeerError, match=message):
        peer.decode(b"", make_picture().mode)


def test_a_template_without_places_is_refused() -> None:
    with pytest.raises(InputError, match="must mention"):
        CommandPeer("bad", "cp {input}", "cp {input} {output}")
