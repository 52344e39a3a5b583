"""Files: the bytes of an .lmz image or archive, written and read (FORMAT.md)."""
