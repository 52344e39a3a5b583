"""Data sets from small or artificial files: right pixels, and errors that say what to do."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lmzip.models.data_files import (
    Bytes,
    DataError,
    read_binarized_mnist,
    read_cifar10,
    read_mnist,
)
from lmzip.models.data_tensors import average_boxes, load_data_set, load_folder


@pytest.fixture(scope="module")
def cifar_pixels() -> Bytes:
    """10,000 images that compress well, and differ at a few places."""
    pixels = np.zeros((10_000, 3, 32, 32), np.uint8)
    pixels[:, 1, 2, 3] = np.arange(10_000) % 251
    pixels[7, 2, 31, 0] = 200
    return pixels


def binary_batch(pixels: Bytes) -> bytes:
    labels = np.full((len(pixels), 1), 9, np.uint8)
    return np.concatenate([labels, pixels.reshape(len(pixels), -1)], 1).tobytes()


def python2_batch(pixels: Bytes) -> bytes:
    """A pickle as Python 2 and an old numpy wrote it: byte strings, numpy.core."""
    data = pixels.tobytes()
    minus_one = b"J\xff\xff\xff\xff"
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN" + 2 * minus_one + b"K\x00tb"
    shape = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in (10_000, 3072)) + b"t"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    state = b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    return b"\x80\x02}U\x04data" + array + state + b"s."


def test_cifar10_layouts_hold_the_same_images(tmp_path: Path, cifar_pixels: Bytes) -> None:
    contents = {
        "cifar-10-batches-bin/test_batch.bin": binary_batch(cifar_pixels),
        "cifar-10-batches-py/test_batch": python2_batch(cifar_pixels),
    }
    for number, (name, data) in enumerate(contents.items()):
        root = tmp_path / f"folder{number}"
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(data)
        assert np.array_equal(read_cifar10([tmp_path, root], "test"), cifar_pixels)

        archive = tmp_path / f"archive{number}" / "cifar10"
        archive.mkdir(parents=True)
        kind = "binary" if name.endswith(".bin") else "python"
        with tarfile.open(archive / f"cifar-10-{kind}.tar.gz", "w:gz", compresslevel=1) as tar:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        assert np.array_equal(read_cifar10([archive.parent], "test"), cifar_pixels)


def test_cifar10_training_set_is_five_batches(tmp_path: Path, cifar_pixels: Bytes) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(binary_batch(cifar_pixels))
    for number in range(2, 6):
        os.link(tmp_path / "data_batch_1.bin", tmp_path / f"data_batch_{number}.bin")
    images = load_data_set("cifar10", [tmp_path.parent], "train", tmp_path.name)
    assert images.shape == (50_000, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert np.array_equal(images[40_000:], cifar_pixels)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_4\.bin: No such file.*fetch cifar-10"):
        read_cifar10([tmp_path.parent], "train", tmp_path.name)


def test_cifar10_pickle_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "proof"),)

    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(DataError, match=r"damaged.*no use for posix\.mkdir"):
        read_cifar10([tmp_path.parent], "test", tmp_path.name)
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 3073, b"}", b"cos\nsystem\n", b"K\x01."])
@pytest.mark.parametrize("suffix", ["", ".bin"])
def test_damaged_cifar10_is_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    (tmp_path / f"test_batch{suffix}").write_bytes(content)
    with pytest.raises(DataError, match=r"test_batch.* is damaged.*fetch cifar-10"):
        read_cifar10([tmp_path.parent], "test", tmp_path.name)


def test_damaged_cifar10_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(b"not an archive")
    with pytest.raises(DataError, match="damaged archive"):
        read_cifar10([tmp_path], "test")
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("readme.html"))
    with pytest.raises(DataError, match="no test_batch in the archive"):
        read_cifar10([tmp_path], "test")


def test_missing_data_sets_say_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar-10-batches-bin.*fetch cifar-10-binary\.tar\.gz"):
        read_cifar10([tmp_path])
    with pytest.raises(DataError, match=r"fetch train-images-idx3-ubyte\.gz"):
        read_mnist([tmp_path])
    with pytest.raises(DataError, match=r"binarized_mnist\.npz.*keys train, valid, test"):
        read_binarized_mnist([tmp_path])
    with pytest.raises(DataError, match="no faces in"):
        load_folder([tmp_path], "faces")
    with pytest.raises(DataError, match="no split 'valid'"):
        read_mnist([tmp_path], "valid")


@pytest.mark.parametrize("name", ["t10k-images-idx3-ubyte", "mnist/t10k-images.idx3-ubyte.gz"])
def test_mnist_idx(tmp_path: Path, name: str) -> None:
    pixels = np.arange(5 * 28 * 28).reshape(5, 1, 28, 28).astype(np.uint8)
    data = struct.pack(">4i", 0x803, 5, 28, 28) + pixels.tobytes()
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert np.array_equal(read_mnist([tmp_path], "test"), pixels)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged idx file"):
        read_mnist([tmp_path], "test")


def test_labels_are_no_images(tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">4i", 0x801, 1, 1, 1) + b"\0")
    with pytest.raises(DataError, match="magic number 0x801"):
        read_mnist([tmp_path])


def test_binarized_mnist(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (6, 784), np.uint8)
    path = tmp_path / "binarized_mnist.npz"
    np.savez(path, train=np.packbits(bits, 1), valid=np.packbits(bits[:2], 1))
    assert np.array_equal(read_binarized_mnist([tmp_path])[:, 0], bits.reshape(6, 28, 28))
    assert read_binarized_mnist([tmp_path], "valid").shape == (2, 1, 28, 28)
    with pytest.raises(DataError, match=r"damaged file.*test"):
        read_binarized_mnist([tmp_path], "test")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match="damaged file"):
        read_binarized_mnist([tmp_path])


def test_folder_of_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    colour, grey = rng.integers(0, 256, (5, 7, 3), np.uint8), rng.integers(0, 256, (4, 4), np.uint8)
    (tmp_path / "sub").mkdir()
    Image.fromarray(colour).save(tmp_path / "b.png")
    Image.fromarray(grey).save(tmp_path / "sub" / "c.png")
    (tmp_path / "a.txt").write_text("no image")
    first, second = load_folder([tmp_path.parent], tmp_path.name)
    assert np.array_equal(first, colour.transpose(2, 0, 1))
    assert np.array_equal(second, np.stack([grey] * 3))
    (scaled,) = load_folder([tmp_path.parent], tmp_path.name, size=6, files=slice(1))
    assert scaled.shape == (3, 6, 6)
    assert load_folder([tmp_path.parent], tmp_path.name, channels=1)[1].shape == (1, 4, 4)
    (tmp_path / "z.png").write_bytes((tmp_path / "b.png").read_bytes()[:60])
    with pytest.raises(DataError, match=r"z\.png: cannot be read as an image"):
        load_folder([tmp_path.parent], tmp_path.name)


def test_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images"):
        load_folder([tmp_path.parent], tmp_path.name)


def test_average_boxes_rounds_half_up_and_drops_the_rest() -> None:
    image = torch.tensor([[0, 1, 255, 255, 9], [0, 1, 255, 255, 9], [8, 8, 8, 8, 8]])
    image = image.to(torch.uint8)[None]
    assert average_boxes(image, 2).tolist() == [[[1, 255]]]
    assert average_boxes(image, 1) is image
