"""Kernels in C: what the numpy engine computes, several times faster, where they were built."""
