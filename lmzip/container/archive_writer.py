"""From many pictures to one archive.

Pictures of one mode and shape are coded together, some tens of thousands of pixels to a stream:
enough to make the few bytes of overhead negligible, few enough to decode a single image quickly.
How many streams are computed at once affects nothing but speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lmzip.classical import encode_classical
from lmzip.container.archive_file import (
    Batch,
    Index,
    append_chunk,
    finish_archive,
    join_streams,
    start_archive,
)
from lmzip.container.bank_choice import choose_tuning_for_all
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_writer import choose_model_and_order, compress_picture
from lmzip.container.learning import learn_model
from lmzip.container.scaling import Scaling
from lmzip.container.scaling_choice import choose_scalings, describe_values, number_planes
from lmzip.container.tiles import cut_range
from lmzip.container.tuned_models import refer_to
from lmzip.cost import to_bits
from lmzip.network.registry import Choice, Model
from lmzip.options import BEST, DEFAULT, MAX, Options
from lmzip.parallel.encode_job import Coded, EncodeJob
from lmzip.parallel.workers import JOB_PIXELS, run_jobs
from lmzip.picture import Mode, Picture, Samples
from lmzip.progress import Progress
from lmzip.selection import choose_by_sample, list_choices
from lmzip.stream.precision import Precision

BATCH_PIXELS = 1 << 15  # of a stream, roughly
SAMPLED = 16  # pictures that decide for all: which network, which scaling
FILE_OVERHEAD = 30  # bytes of an image file besides its samples

Shape = tuple[Mode, int, int]


def pack_archive(
    pictures: Iterable[tuple[str | None, Picture]],
    options: Options | None = None,
    progress: Progress | None = None,
    *,
    tuned: Sequence[Model] = (),
    gather_metadata: bool = False,
) -> bytes:
    """Return an archive of pictures, with their names if all of them have one.

    Tuned models take the place of those that they were made from; all pictures share them. If
    asked for, all metadata is gathered in the index: it takes few bytes there if pictures have
    much of it in common, and can be read without them.
    """
    options = options or Options()
    named = list(pictures)
    if options.effort == MAX:
        best = replace(options, effort=BEST)
        return _pack_and_learn(named, best, progress, gather_metadata)
    by_shape: dict[Shape, list[int]] = defaultdict(list)
    alone: list[int] = []
    for number, (_, picture) in enumerate(named):
        pixels = picture.height * picture.width
        if picture.mode.groups and pixels <= BATCH_PIXELS:
            by_shape[picture.mode, picture.height, picture.width].append(number)
        else:
            alone.append(number)

    report = _Steps(progress, sum(p.height * p.width for _, p in named))
    writer, chunks = start_archive(), []
    metadata: dict[int, Mapping[str, bytes]] = {}
    for (mode, height, width), numbers in by_shape.items():
        choices = list_choices(options, mode, tuned)
        if not choices:
            alone += numbers
            continue
        alike = _Alike(np.stack([named[number][1].samples for number in numbers]), mode)
        step = report.step(len(numbers) * height * width)
        batches, rejected = _encode_shape(alike, choices, options, step)
        for members, (model, order), data, cost in batches:
            checksum = checksum_of_samples(alike.images[members])
            batch = Batch(
                mode, height, width, refer_to(model), order, cost, checksum, alike.scalings
            )
            chosen = [numbers[member] for member in members]
            chunks.append(append_chunk(writer, data, chosen, batch))
            metadata.update({n: named[n][1].metadata for n in chosen if named[n][1].metadata})
        alone += [numbers[member] for member in rejected]
    for number in sorted(alone):
        picture = named[number][1]
        if gather_metadata and picture.metadata:
            metadata[number] = picture.metadata
            picture = replace(picture, metadata={})
        step = report.step(picture.height * picture.width)
        data = compress_picture(picture, options, step, tuned=tuned, shared=True)
        chunks.append(append_chunk(writer, data, [number], None))
    names = tuple(name for name, _ in named if name is not None)
    all_named = bool(named) and len(names) == len(named)
    models = tuple(refer_to(model) for model in tuned)
    index = Index(tuple(chunks), names if all_named else None, metadata, models)
    return finish_archive(writer, index)


def _pack_and_learn(
    named: Sequence[tuple[str | None, Picture]],
    options: Options,
    progress: Progress | None,
    gather_metadata: bool,
) -> bytes:
    """Return the smaller of two archives: by networks as they are, and by one that learns before.

    The network that suits the pictures of most pixels learns from all of them.
    """
    plain = pack_archive(named, options, gather_metadata=gather_metadata)
    votes: dict[Choice, int] = defaultdict(int)
    pictures = [picture for _, picture in named]
    for picture in pictures[:: max(1, len(pictures) // SAMPLED)]:
        if choice := choose_model_and_order(picture, options):
            votes[choice] += picture.height * picture.width
    if not votes:
        return plain
    choice = max(votes, key=lambda choice: votes[choice])
    # Small pictures share streams, and their network stays as it is.
    model = learn_model(choice, pictures, options, progress, BATCH_PIXELS + 1)
    if model is None:
        return plain
    again = replace(options, effort=DEFAULT)  # classical coders had their chance
    model = replace(model, plain_size=len(plain))
    tuned = pack_archive(named, again, tuned=[model], gather_metadata=gather_metadata)
    return min(plain, tuned, key=len)


class _Alike:
    """Images (N, H, W, C) of one mode and shape, which share their scalings if they are deep."""

    def __init__(self, images: Samples, mode: Mode) -> None:
        self.images, self.mode = images, mode
        self.scalings: tuple[Scaling, ...] = ()
        if mode.deep:
            self.scalings = tuple(describe_values(images[..., group]) for group in mode.groups)

    @property
    def pixels(self) -> int:
        """How many pixels an image has."""
        return int(self.images.shape[1] * self.images.shape[2])

    def sample(self) -> Samples:
        """Return some of the images."""
        return self.images[:: max(1, len(self.images) // SAMPLED)][:SAMPLED]

    def planes(self, group: int, images: Samples) -> tuple[Samples, Precision | None]:
        """Return a group of channels of some of the images as a network codes it."""
        return number_planes(images, self.mode, self.scalings, group)


class _Steps:
    """Combines the progress of several steps into one."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def step(self, pixels: int) -> Progress | None:
        """Return the callback of the next step, which has this many pixels."""
        progress, before = self._progress, self._before
        self._before += pixels
        if progress is None:
            return None
        return lambda done, total: progress(
            min(before + pixels * done // total, self._total), self._total
        )


def _encode_shape(
    alike: _Alike,
    choices: Sequence[Choice],
    options: Options,
    progress: Progress | None,
) -> tuple[list[tuple[list[int], Choice, bytes, int]], set[int]]:
    """Code images of one shape in batches; also return those that are smaller on their own."""
    per_batch = max(1, BATCH_PIXELS // alike.pixels)
    chosen = _choose_for_each(alike, choices, per_batch, options)
    alike.scalings = choose_scalings(alike.images, alike.sample(), alike.mode, chosen[0], options)
    batches: list[tuple[list[int], Choice]] = []
    for choice in dict.fromkeys(chosen):
        members = [number for number, own in enumerate(chosen) if own == choice]
        batches += [(part, choice) for part in _parts(members, per_batch)]
    coded = _encode_batches(alike, batches, options, progress)
    if options.forced:
        return _assemble(batches, coded), set()
    rejected = _find_cheaper_alone(alike, batches, coded, options.effort == BEST)
    if rejected:
        kept = [([m for m in members if m not in rejected], c) for members, c in batches]
        batches = [(members, choice) for members, choice in kept if members]
        coded = _encode_batches(alike, batches, options, None)
    return _assemble(batches, coded), rejected


def _choose_for_each(
    alike: _Alike, choices: Sequence[Choice], per_batch: int, options: Options
) -> list[Choice]:
    """Return each image's model and order: the same for all unless the order is "best"."""
    count = len(alike.images)
    if options.order != BEST or len(choices) == 1:
        choice = choices[0]
        sample, precision = alike.planes(0, alike.sample())
        if len(choices) > 1:
            choice, _ = choose_by_sample(sample, choices, options, precision)
        return [choose_tuning_for_all(choice, sample, options, precision)] * count
    parts = list(_parts(range(count), per_batch))
    tried = [(part, choice) for choice in choices for part in parts]
    coded = _encode_batches(alike, tried, options, None)
    costs = [cost for groups in coded for cost in np.sum([group.costs for group in groups], axis=0)]
    best = np.argmin(np.reshape(costs, (len(choices), count)), axis=0)
    return [choices[number] for number in best]


def _encode_batches(
    alike: _Alike,
    batches: Sequence[tuple[list[int], Choice]],
    options: Options,
    progress: Progress | None,
) -> list[list[Coded]]:
    """Return the coded groups of channels of each batch."""
    jobs, owners = [], []
    per_job = max(1, JOB_PIXELS // alike.pixels)
    for group in range(len(alike.mode.groups)):
        for together in _share_jobs(batches, per_job):
            members = [member for batch in together for member in batches[batch][0]]
            model, order = batches[together[0]][1]
            sizes = tuple(len(batches[batch][0]) for batch in together)
            planes, precision = alike.planes(group, alike.images[members])
            jobs.append(EncodeJob(model, options.backend, order, planes, sizes, precision))
            owners.append((group, together))
    coded: list[list[Coded]] = [[] for _ in batches]
    results = run_jobs(jobs, options.threads, progress)
    for (_, together), streams in sorted(
        zip(owners, results, strict=True), key=lambda owned: owned[0][0]
    ):
        for batch, stream in zip(together, streams, strict=True):
            coded[batch].append(stream)
    return coded


def _share_jobs(batches: Sequence[tuple[list[int], Choice]], per_job: int) -> Iterator[list[int]]:
    """Put consecutive batches of the same choice together, up to `per_job` images."""
    together: list[int] = []
    size = 0
    for number, (members, choice) in enumerate(batches):
        full = size + len(members) > per_job
        if together and (full or batches[together[0]][1] != choice):
            yield together
            together, size = [], 0
        together.append(number)
        size += len(members)
    if together:
        yield together


def _find_cheaper_alone(
    alike: _Alike,
    batches: Sequence[tuple[list[int], Choice]],
    coded: Sequence[Sequence[Coded]],
    thorough: bool,
) -> set[int]:
    """Return the images whose classical encoding is smaller than what the network takes."""
    cheaper = set()
    for (members, _), groups in zip(batches, coded, strict=True):
        for place, member in enumerate(members):
            bits = to_bits(sum(group.costs[place] for group in groups))
            _, data = encode_classical(alike.images[member], alike.mode, thorough=thorough)
            if 8 * (len(data) + FILE_OVERHEAD) < bits:
                cheaper.add(member)
    return cheaper


def _assemble(
    batches: Sequence[tuple[list[int], Choice]], coded: Sequence[Sequence[Coded]]
) -> list[tuple[list[int], Choice, bytes, int]]:
    assembled = []
    for (members, choice), groups in zip(batches, coded, strict=True):
        data = join_streams([group.data for group in groups])
        assembled.append((members, choice, data, sum(group.cost for group in groups)))
    return assembled


def _parts(members: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cut members into parts of nearly equal size: a short last one would cost too much."""
    count = max(1, round(len(members) / size))
    for number in range(count):
        yield list(members[slice(*cut_range(len(members), count, number))])
