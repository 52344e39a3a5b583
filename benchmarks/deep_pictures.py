"""Make sets of deep pictures to measure on, as 16-bit PNG files.

    pip install pydicom
    python benchmarks/deep_pictures.py --photos FOLDER --out DEEP
    lmzip bench DEEP/10-bit --peers jxl3,jxl6,jxl7,jxl9,jpegls,jpeg2000

10-bit and 12-bit: sums of 2x2 and of 4x4 pixels of 8-bit photographs, which are exact averages with
two and four bits more. They are not shifted to the top of 16 bits, since peers do better so. dicom:
the CT and MR pictures that the package pydicom ships, each once, from its least value on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

import lmzip
from lmzip.formats import read_picture, write_picture

Deep = npt.NDArray[np.uint16]
SIDES = {"10-bit": 2, "12-bit": 4}  # of the squares that are summed up
MODALITIES = ("CT", "MR")


def sum_squares(pixels: npt.NDArray[np.uint8], side: int) -> Deep:
    """Return the sums of squares of pixels (H, W, C)."""
    height, width = (length // side for length in pixels.shape[:2])
    cut = pixels[: height * side, : width * side]
    return cut.reshape(height, side, width, side, -1).sum((1, 3), dtype=np.uint16)


def read_medical() -> dict[str, Deep]:
    """Return the CT and MR pictures of pydicom by their files' names, each picture once."""
    import pydicom

    pictures: dict[str, Deep] = {}
    for path in sorted((Path(pydicom.__file__).parent / "data" / "test_files").rglob("*.dcm")):
        try:
            with warnings.catch_warnings(action="ignore"):
                file = pydicom.dcmread(path)
                if file.get("Modality") not in MODALITIES:
                    continue
                values = file.pixel_array.astype(np.int32)
        except Exception as error:  # the package has files that are damaged on purpose
            print(f"{path.name}: left out ({str(error)[:60]})")
            continue
        samples = (values - values.min()).astype(np.uint16)[..., None]
        if not any(np.array_equal(samples, other) for other in pictures.values()):
            pictures[path.stem] = samples
    return pictures


def write_set(folder: Path, pictures: dict[str, Deep]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, samples in pictures.items():
        file, _ = write_picture(lmzip.Picture(samples, lmzip.mode_of(samples)), ".png")
        (folder / f"{name}.png").write_bytes(file)
    print(f"{folder}: {len(pictures)} pictures")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--photos", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--out", type=Path, metavar="FOLDER", required=True)
    arguments = parser.parse_args()
    photos = {
        path.stem: read_picture(path.read_bytes()).picture.samples
        for path in sorted(arguments.photos.iterdir())
    }
    for name, side in SIDES.items():
        write_set(arguments.out / name, {k: sum_squares(p, side) for k, p in photos.items()})
    write_set(arguments.out / "dicom", read_medical())


if __name__ == "__main__":
    main()
