"""Every error that a file or a caller can cause.

    LmzipError
    +-- InputError        the caller's pixels, layout, dtype or option
    |   +-- OrderError    an order that is unknown or does not fit the image
    +-- FormatError       the file is not what FORMAT.md describes
    |   +-- DamagedError  a checksum does not match, or the end is missing
    |   +-- VersionError  a format version that this release does not know
    +-- LimitError        more than the limits allow; the file may be good (`lmzip.limits`)
    +-- ModelError        a model file that is missing, invalid or not exact
        +-- FingerprintError   not the model that the file names

Messages are one line and name the value. The command line maps classes to exit codes.
"""


class LmzipError(Exception):
    """Base class of everything lmzip raises on purpose."""


class InputError(LmzipError, ValueError):
    """The caller's pixels, layout, dtype or option cannot be used."""


class OrderError(InputError):
    """The order is unknown or does not fit the image."""


class FormatError(LmzipError):
    """The data is not a file that FORMAT.md describes."""


class DamagedError(FormatError):
    """A checksum does not match, or the end of the file is missing."""


class VersionError(FormatError):
    """The file has a format version that this release does not know."""


class LimitError(LmzipError):
    """Reading on would take more pixels, images, bytes or time than the limits allow."""


class ModelError(LmzipError):
    """A model file is missing, invalid, or its sums could be inexact."""


class FingerprintError(ModelError):
    """The model at hand is not the one that the file names."""
