"""`lmzip bench`: lmzip and its peers on the same images in the same run."""
