"""What all tests share."""

import torch

# Tests are many small computations: threads would only wait for each other.
torch.set_num_threads(1)
