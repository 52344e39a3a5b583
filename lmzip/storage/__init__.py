"""Where files lie: on this machine, or in a store that fsspec reaches (s3://, gs://, zip://, ...).

Plain names become `pathlib.Path` and are treated as ever. Addresses become paths of the library
universal_pathlib, which have the same methods; they need the extra `remote`.
"""

from lmzip.storage.listing import FoundFile, find_files
from lmzip.storage.paths import (
    is_remote,
    name_errors,
    same_file,
    to_address,
    to_path,
    version_of,
)
from lmzip.storage.ranges import Ranges, open_ranges
from lmzip.storage.writing import open_whole, write_whole

__all__ = [
    "FoundFile",
    "Ranges",
    "find_files",
    "is_remote",
    "name_errors",
    "open_ranges",
    "open_whole",
    "same_file",
    "to_address",
    "to_path",
    "version_of",
    "write_whole",
]
