"""Pixels of one shape to coded bytes and back: mixture, frequencies, entropy coder."""
