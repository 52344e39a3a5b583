"""What a network's adaptation has learnt by when: a tuning is learnt for the network as it will be.

Where a network adapts (`lmzip.network.adaptation`), its output layer is another one at each pixel.
What a tuning changes is worth most where adaptation does not get by itself, so pieces of a picture
are learnt from with the output layer that the codec has by the time it comes to them. To know that
layer, tiles are coded now and then, and what has been learnt is noted at marks along the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from lmzip.container.tiles import Tile, choose_grid, cut_tiles
from lmzip.native.backends import find_backend
from lmzip.network.adaptation import choose_manner
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import compile_schedule
from lmzip.parallel.workers import count_threads
from lmzip.stream.encoder import encode_images

MARKS = 16  # along each tile
MOST_TILES = 48  # that are followed: as many as take some seconds

Image = npt.NDArray[np.uint8]  # (H, W, C)
Changes = npt.NDArray[np.int32]  # (outputs, features + 1)
Trail = list[Changes]  # one for each mark


class Trails:
    """The changes of the output layer along tiles of so many pixels or more.

    Of very many tiles only some, from all over the images, are followed. For the others stands what
    those learn in the mean: pictures of one collection teach much the same.
    """

    def __init__(self, order: Order, images: Sequence[Image], least_pixels: float) -> None:
        self._order, self._images = order, images
        self._tiles: list[list[Tile]] = [
            [tile for tile in _cut(image, order) if tile.height * tile.width >= least_pixels]
            for image in images
        ]
        tiles = [(number, tile) for number, some in enumerate(self._tiles) for tile in some]
        count = min(len(tiles), MOST_TILES)
        self._followed = [tiles[place * len(tiles) // count] for place in range(count)]
        self._trails: dict[tuple[int, Tile], Trail] = {}
        self._usual: Trail = []
        self._marks: dict[tuple[int, int], npt.NDArray[np.intp]] = {}  # of each pixel, by shape

    def follow(self, network: IntegerNetwork) -> None:
        """Code tiles with a network, and note what it learns."""
        if not self._followed or choose_manner(network) is None:
            return
        for tile in {tile for some in self._tiles for tile in some}:
            self._marks[tile.height, tile.width] = self._find_marks(network, tile)
        with ThreadPoolExecutor(count_threads(0)) as threads:
            found = threads.map(lambda tile: self._follow_tile(network, *tile), self._followed)
            self._trails = dict(zip(self._followed, found, strict=True))
        by_mark = zip(*self._trails.values(), strict=True)
        self._usual = [np.mean(each, 0).round().astype(np.int32) for each in by_mark]

    def find_changes(self, image: int, row: int, column: int) -> Changes | None:
        """Return what a network has learnt by about a pixel; None where it does not adapt."""
        for tile in self._tiles[image] if self._trails else ():
            down, right = row - tile.rows[0], column - tile.columns[0]
            if 0 <= down < tile.height and 0 <= right < tile.width:
                trail = self._trails.get((image, tile), self._usual)
                return trail[self._marks[tile.height, tile.width][down, right]]
        return None

    def _find_marks(self, network: IntegerNetwork, tile: Tile) -> npt.NDArray[np.intp]:
        """Return the stretch of a tile's sequence in which each of its pixels is."""
        schedule = compile_schedule(self._order, tile.height, tile.width, network.layers)
        marks = np.empty(schedule.pixels, np.intp)
        marks[schedule.sequence] = np.arange(schedule.pixels) * MARKS // schedule.pixels
        return marks.reshape(tile.height, tile.width)

    def _follow_tile(self, network: IntegerNetwork, image: int, tile: Tile) -> Trail:
        """Return what is learnt by the middle of each stretch."""
        samples = np.ascontiguousarray(self._images[image][tile.slices])[None]
        pixels, trail = samples[..., 0].size, Trail()

        def watch(coded: int, changes: Changes) -> None:
            while len(trail) < MARKS and coded * MARKS >= (len(trail) + 0.5) * pixels:
                trail.append(changes)

        backend, manner = find_backend(), choose_manner(network)
        encode_images(network, self._order, samples, backend, manner=manner, watch=watch)
        return trail


def _cut(image: Image, order: Order) -> Iterator[Tile]:
    height, width = image.shape[:2]
    return cut_tiles(height, width, choose_grid(height, width, order))
