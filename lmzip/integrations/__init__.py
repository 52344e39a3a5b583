"""lmzip inside other libraries: chunks of Zarr arrays, samples of WebDataset.

Each module is imported by the library it is for, through an entry point, or by whoever uses it; so
each imports its library at the top, and nothing else of lmzip imports them.
"""
