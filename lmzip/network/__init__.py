"""The integer network: what a model file holds, where models are found, and how one is run."""
