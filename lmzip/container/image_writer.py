"""From a picture to an image file: tiles, the choice of a coding, and the classical fallback.

If the caller names neither model nor order, the file is no larger than the smallest classical
encoding, apart from its header. Classical encoders first run with quick settings; they run again
with their strongest ones only if they came close to winning (with effort "best", always). A sample
of the picture tells which network to use, and whether any is worth running.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lmzip.classical import encode_classical
from lmzip.container.bank_choice import choose_tuning
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import Chunk, write_image
from lmzip.container.image_header import Coding, ImageHeader
from lmzip.container.learning import learn_model
from lmzip.container.scaling import Scaling
from lmzip.container.scaling_choice import choose_scalings, describe_values
from lmzip.container.tile_coding import encode_tiles
from lmzip.container.tiles import choose_grid
from lmzip.container.tuned_models import refer_to
from lmzip.cost import to_bits
from lmzip.network.registry import Choice, Model
from lmzip.options import BEST, DEFAULT, MAX, Options
from lmzip.picture import Picture, Samples
from lmzip.progress import Progress
from lmzip.selection import MANY_CROPS, SMALL, choose_by_sample, list_choices, take_sample
from lmzip.stream.precision import Precision

HOPELESS = 1.5  # a network that takes this many times the quick classical size is not run
# Strong settings save classical encoders some per cent of a photograph and up to half of a drawing.
# They are tried if the quick encoding is at most this many times as large as the network's:
CLOSE, CLOSE_DRAWING = 1.08, 2.5
DRAWING = 2.0  # bits per sample below which a picture is taken for a drawing


def compress_picture(
    picture: Picture,
    options: Options | None = None,
    progress: Progress | None = None,
    *,
    tuned: Sequence[Model] = (),
    shared: bool = False,
) -> bytes:
    """Return the image file of a picture.

    Tuned models take the place of those that they were made from. Their tunings are in the archive
    that is to hold the file if they are `shared`, otherwise in the file itself.
    """
    options = options or Options()
    if options.effort == MAX:
        return _compress_and_learn(picture, replace(options, effort=BEST), progress)
    samples, mode = picture.samples, picture.mode
    choices = list_choices(options, mode, tuned) if mode.groups else []
    quick, small = None, picture.height * picture.width <= SMALL
    if not options.forced or not choices:
        quick = Chunk(*encode_classical(samples, mode, thorough=small or not choices))
    choice = _choose(picture, choices, quick, options)
    if choice is None:
        assert quick is not None
        best = min(quick, Chunk(*encode_classical(samples, mode, thorough=True)), key=_size)
        return _write_classical(picture, best)

    promising = choose_tuning(choice, *_find_first_group(picture), options)
    # What a tuning saves of a small picture may be less than it costs to name it.
    ways = [choice, promising] if small and promising != choice else [promising]
    shares = tuned if shared else ()
    coded = [_code_by_network(picture, way, shares, options, progress) for way in ways]
    by_network, size = min(coded, key=lambda file: len(file[0]))
    if quick is not None and _size(quick) < _closeness(quick, picture, options) * size:
        best = min(quick, Chunk(*encode_classical(samples, mode, thorough=True)), key=_size)
        return min(by_network, _write_classical(picture, best), key=len)
    if quick is not None and mode.deep:  # the header may hold a list of values
        return min(by_network, _write_classical(picture, quick), key=len)
    return by_network


def _code_by_network(
    picture: Picture,
    choice: Choice,
    shared: Sequence[Model],
    options: Options,
    progress: Progress | None,
) -> tuple[bytes, int]:
    """Return the file of a picture that a network codes, and how much of it are its tiles."""
    scalings = scale_picture(picture, choice, options)
    chunks, cost = encode_tiles(picture, choice, scalings, options, progress)
    grid = choose_grid(picture.height, picture.width, choice.order)
    coding = Coding(refer_to(choice.model, shared), choice.order, cost, scalings)
    height, width = picture.height, picture.width
    header = ImageHeader(picture.mode, height, width, grid, coding, picture.metadata)
    file = write_image(header, chunks, checksum_of_samples(picture.samples))
    return file, sum(map(_size, chunks))


def _compress_and_learn(picture: Picture, options: Options, progress: Progress | None) -> bytes:
    """Return the smaller of two files: by networks as they are, and by one that learns before."""
    plain = compress_picture(picture, options)
    choice = choose_model_and_order(picture, options)
    model = choice and learn_model(choice, [picture], options, progress)
    if choice is None or model is None:
        return plain
    again = replace(options, effort=DEFAULT)  # classical coders had their chance
    model = replace(model, plain_size=len(plain))
    return min(plain, compress_picture(picture, again, tuned=[model]), key=len)


def choose_model_and_order(picture: Picture, options: Options | None = None) -> Choice | None:
    """Return the model and order with which the network would code a picture.

    None if no model covers its mode. A classical method may still turn out smaller.
    """
    options = options or Options()
    choices = list_choices(options, picture.mode) if picture.mode.groups else []
    return _choose(picture, choices, None, options)


def scale_picture(picture: Picture, choice: Choice, options: Options) -> tuple[Scaling, ...]:
    """Return how deep samples are scaled for a network; nothing for other samples."""
    if not picture.mode.deep:
        return ()
    crops = take_sample(picture.samples, MANY_CROPS)
    return choose_scalings(picture.samples[None], crops, picture.mode, choice, options)


def _find_first_group(picture: Picture) -> tuple[Samples, Precision | None]:
    """Return what models are judged by: the colours or the grey, plainly scaled if it is deep."""
    plane = picture.samples[..., picture.mode.groups[0]]
    if not picture.mode.deep:
        return plane, None
    plain = describe_values(plane)
    return plain.number(plane), plain.precision


def _size(chunk: Chunk) -> int:
    return len(chunk.data)


def _closeness(quick: Chunk, picture: Picture, options: Options) -> float:
    if options.effort == BEST:
        return math.inf
    drawing = 8 * _size(quick) < DRAWING * picture.samples.size
    return CLOSE_DRAWING if drawing else CLOSE


def _write_classical(picture: Picture, chunk: Chunk) -> bytes:
    header = ImageHeader(
        picture.mode, picture.height, picture.width, (1, 1), None, picture.metadata
    )
    return write_image(header, [chunk], checksum_of_samples(picture.samples))


def _choose(
    picture: Picture, choices: Sequence[Choice], quick: Chunk | None, options: Options
) -> Choice | None:
    """Return the choice with the cheapest sample; None if no network is worth running.

    `quick` is a classical encoding: a network that would be much larger is not worth running.
    """
    if not choices or (len(choices) == 1 and quick is None):
        return choices[0] if choices else None
    whole, precision = _find_first_group(picture)
    # A custom order fits the whole picture only, and the best order of a picture that is a single
    # tile is found by trying all of it.
    small = choose_grid(picture.height, picture.width) == (1, 1)
    bound = (options.order == BEST and small) or choices[0].order.permutation is not None
    crops = whole[None] if bound else take_sample(whole)
    choice, cost = choose_by_sample(crops, choices, options, precision)
    if quick is not None and not bound:
        bits = to_bits(cost) * (whole.size / crops.size)
        if bits > HOPELESS * 8 * _size(quick):
            return None
    return choice
