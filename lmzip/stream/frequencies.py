"""What mixture and coder agree on: the frequencies of an alphabet's symbols sum to 2^24."""

FREQUENCY_BITS = 24
FREQUENCY_TOTAL = 1 << FREQUENCY_BITS
