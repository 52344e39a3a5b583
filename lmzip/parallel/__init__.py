"""Coding on several cores: pieces of work, and who does them."""
