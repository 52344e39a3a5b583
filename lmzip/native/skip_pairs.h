/* Products with 1x1 layers whose inputs are mostly zero: pairs of zeros are passed over. Included by
 * loops.h for kernels that say SKIPS_PAIRS. */
enum { MASKED = 64, SKIPPING = 4 }; /* pairs in a mask, and blocks at once */

/* Evaluate some blocks of a 1x1 layer, a constant number, for all columns. Its inputs have passed a
 * ReLU, which leaves most of them zero: pairs of zeros are passed over. */
TARGET INLINE void multiply_columns(const Layer *layer, const Inputs *in, const Target *target,
                                    int block, const int blocks, int n) {
    const size_t step = 2 * LANES * (size_t)layer->blocks;
    const size_t lane = (size_t)block * LANES;
    const int16_t *w = layer->weights + 2 * lane;
    for (int i = 0; i < n; i++) {
        const int16_t *row = in->rows + in->at[i] * in->stride;
        const int32_t *bases = find_bases(layer, in, i) + lane;
        lanes sums[SKIPPING];
        for (int b = 0; b < blocks; b++)
            sums[b] = lanes_load(bases + b * LANES);
        for (int first = 0; first < layer->pairs; first += MASKED) {
            uint64_t left = 0;
            for (int k = 0; k < MASKED && first + k < layer->pairs; k += LANES / 2)
                left |= (uint64_t)lanes_nonzero(row + 2 * (first + k)) << k;
            for (; left; left &= left - 1) {
                const size_t k = first + lanes_lowest(left);
                const int16_t *here = w + k * step;
                pair x = lanes_pair(row + 2 * k);
                for (int b = 0; b < blocks; b++)
                    sums[b] = lanes_dot(sums[b], x, lanes_weights(here + b * 2 * LANES));
            }
        }
        for (int b = 0; b < blocks; b++) {
            const size_t of_block = lane + b * LANES;
            finish_sums(target, i, of_block, sums[b], prepare_finish(layer, target, of_block));
        }
    }
}

TARGET static void multiply_skipping(const Layer *layer, const Inputs *in, const Target *target,
                                     int n) {
    int block = 0;
    for (; block + SKIPPING <= layer->blocks; block += SKIPPING)
        multiply_columns(layer, in, target, block, SKIPPING, n);
    if (layer->blocks - block == 3)
        multiply_columns(layer, in, target, block, 3, n);
    else if (layer->blocks - block == 2)
        multiply_columns(layer, in, target, block, 2, n);
    else if (layer->blocks - block == 1)
        multiply_columns(layer, in, target, block, 1, n);
}
