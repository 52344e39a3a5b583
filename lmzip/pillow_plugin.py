"""A plugin for Pillow: `import lmzip.pillow_plugin` lets Image.open and Image.save work on .lmz.

Opening reads the header; pixels are decoded when they are first needed. As in Pillow's own formats,
16-bit colour becomes 8-bit colour (`lmzip.decompress` gives all bits). Files must have been made
with a released model. `save` takes model, order, effort and threads as `lmzip.compress` does, and
exif, icc_profile, xmp and dpi as Pillow's formats do.
"""

from __future__ import annotations

from typing import IO, Any

from PIL import Image, ImageFile, ImagePalette

from lmzip.container.binary import Reader
from lmzip.container.image_file import read_image_header
from lmzip.container.image_header import ImageHeader
from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.container.shared_fields import IMAGE, read_prelude
from lmzip.errors import DamagedError, LmzipError
from lmzip.formats.pillow_images import image_from_picture, info_from_metadata, picture_from_image
from lmzip.options import Options

_FORMAT = "LMZ"
_FIRST_READ = 1 << 12  # bytes that hold most headers
_SETTINGS = ("model", "order", "effort", "threads")


def _accept(prefix: bytes) -> bool:
    try:
        return read_prelude(Reader(prefix)).kind == IMAGE
    except LmzipError:
        return False


class LmzImageFile(ImageFile.ImageFile):
    """An .lmz file of one image."""

    format = _FORMAT
    format_description = "lmzip"

    def _open(self) -> None:
        assert self.fp is not None
        if not _accept(self.fp.read(6)):
            raise SyntaxError("not an lmz image file")
        self.fp.seek(0)
        try:
            header = _read_header(self.fp)
        except LmzipError as error:
            raise SyntaxError(str(error)) from error
        self._size = header.width, header.height
        name = header.mode.name
        self._mode = "I;16" if name == "L16" else name.removesuffix("16")
        if name == "P":
            self.palette = ImagePalette.raw("RGB", header.metadata.get("PLTE", bytes(768)))
        self.info.update(info_from_metadata(header.mode, header.metadata))
        self.tile = []
        self._is_decoded = False

    def load(self) -> Any:
        """Decode the pixels unless that has been done; raises OSError if the file is damaged."""
        if not self._is_decoded and self.fp is not None:
            self.fp.seek(0)
            try:
                image = image_from_picture(decompress_picture(self.fp.read()))
            except LmzipError as error:
                raise OSError(f"cannot decode lmz file: {error}") from error
            self.im, self.palette = image.im, image.palette
            self._is_decoded = True
            if self._exclusive_fp:
                self.fp.close()
            self.fp = None
        return super().load()


def _read_header(file: IO[bytes]) -> ImageHeader:
    """Read as much of a file as its header takes."""
    data = file.read(_FIRST_READ)
    while True:
        try:
            return read_image_header(Reader(data))
        except DamagedError:
            more = file.read(len(data))
            if not more:
                raise
            data += more


def _save(image: Image.Image, file: IO[bytes], filename: str | bytes) -> None:
    settings = dict(image.encoderinfo)
    info = {**image.info, **{k: v for k, v in settings.items() if v is not None}}
    if isinstance(info.get("exif"), Image.Exif):
        info["exif"] = info["exif"].tobytes()
    chosen = {key: settings[key] for key in _SETTINGS if key in settings}
    try:
        picture = picture_from_image(image, info)
        file.write(compress_picture(picture, Options(**chosen)))
    except LmzipError as error:
        raise OSError(f"cannot write as lmz: {error}") from error


Image.register_open(LmzImageFile.format, LmzImageFile, _accept)
Image.register_save(LmzImageFile.format, _save)
Image.register_extension(LmzImageFile.format, ".lmz")
Image.register_mime(LmzImageFile.format, "image/x-lmz")
