"""Picture files: PNG, TIFF, BMP, PNM, WebP, GIF and QOI to `Picture` and back, with metadata."""
