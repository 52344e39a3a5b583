"""Fuzzing: targets, seeds, and what was found."""
