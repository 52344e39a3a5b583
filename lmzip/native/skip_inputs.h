/* Products with layers whose inputs are often zero, by AVX-512. Included by loops.h for kernels that
 * say SKIPS_INPUTS.
 *
 * Half of what passes a ReLU is zero, mostly in the same inputs for neighbouring columns. So for a few
 * columns at a time, the inputs that are not zero in all of them are brought together; their weights
 * are interleaved, two by two, on the way to the products: that takes shuffles, which the processor
 * does beside them.
 */

enum { COLUMNS = 3, DOUBLE = 2 * LANES, INPUTS_AT_ONCE = 32 };

/* The inputs of some columns that are not all zero: where their weights are, counted from those of
 * the first tap in inputs, and what they hold. Their number is even. */
typedef struct {
    int count;
    uint16_t which[MOST_SKIPPED + INPUTS_AT_ONCE];
    int16_t values[COLUMNS][MOST_SKIPPED + INPUTS_AT_ONCE];
} Collected;

TARGET INLINE void collect(const Layer *layer, const Inputs *in, int first, const int columns,
                           Collected *into) {
    static const int16_t numbers[INPUTS_AT_ONCE] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    const int inputs = 2 * layer->pairs;
    const uint32_t *at = in->at + (size_t)first * in->used;
    int n = 0;
    for (int u = 0; u < in->used; u++)
        for (int input = 0; input < inputs; input += INPUTS_AT_ONCE) {
            const int left = inputs - input;
            const __mmask32 inside = left < 32 ? ((__mmask32)1 << left) - 1 : ~(__mmask32)0;
            __m512i here = _mm512_set1_epi16((int16_t)(in->taps[u] * inputs + input));
            __m512i x[COLUMNS], any = _mm512_setzero_si512();
            for (int i = 0; i < columns; i++) {
                const int16_t *row = in->rows + at[i * in->used + u] * in->stride + input;
                x[i] = _mm512_maskz_loadu_epi16(inside, row);
                any = _mm512_or_si512(any, x[i]);
            }
            const __mmask32 some = _mm512_test_epi16_mask(any, any);
            for (int i = 0; i < columns; i++)
                _mm512_storeu_si512(into->values[i] + n, _mm512_maskz_compress_epi16(some, x[i]));
            here = _mm512_add_epi16(here, _mm512_loadu_si512(numbers));
            _mm512_storeu_si512(into->which + n, _mm512_maskz_compress_epi16(some, here));
            n += (int)_mm_popcnt_u32(some);
        }
    if (n % 2) {
        for (int i = 0; i < columns; i++)
            into->values[i][n] = 0;
        into->which[n++] = 0;
    }
    into->count = n;
}

/* Evaluate some pairs of blocks, `doubles`, for some columns: both constants wherever this is called.
 * The last block may be there for the weights alone. */
TARGET INLINE void multiply_collected(const Layer *layer, const Inputs *in, const Target *target,
                                      int block, const int doubles, int first, const int columns) {
    enum { MOST_DOUBLES = 2 };
    const size_t lane = (size_t)block * LANES, width = (size_t)(layer->blocks + 1) / 2 * DOUBLE;
    const int16_t *of_blocks = layer->weights + lane;
    lanes sums[2 * MOST_DOUBLES][COLUMNS];
    Collected found;
    for (int i = 0; i < columns; i++) {
        const int32_t *bases = find_bases(layer, in, first + i) + lane;
        for (int b = 0; b < 2 * doubles; b++)
            sums[b][i] = lanes_load(bases + (block + b < layer->blocks ? b : 0) * LANES);
    }
    collect(layer, in, first, columns, &found);
    for (int t = 0; t < found.count; t += 2) {
        const int16_t *one = of_blocks + found.which[t] * width;
        const int16_t *other = of_blocks + found.which[t + 1] * width;
        pair x[COLUMNS];
        for (int i = 0; i < columns; i++)
            x[i] = lanes_pair(found.values[i] + t);
        for (int d = 0; d < doubles; d++) {
            const __m512i a = _mm512_loadu_si512(one + d * DOUBLE);
            const __m512i b = _mm512_loadu_si512(other + d * DOUBLE);
            const weights low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
            for (int i = 0; i < columns; i++) {
                sums[2 * d][i] = lanes_dot(sums[2 * d][i], x[i], low);
                sums[2 * d + 1][i] = lanes_dot(sums[2 * d + 1][i], x[i], high);
            }
        }
    }
    for (int b = 0; b < 2 * doubles && block + b < layer->blocks; b++) {
        const size_t of_block = lane + b * LANES;
        const Finish finish = prepare_finish(layer, target, of_block);
        for (int i = 0; i < columns; i++)
            finish_sums(target, first + i, of_block, sums[b][i], finish);
    }
}

TARGET INLINE void multiply_doubles(const Layer *layer, const Inputs *in, const Target *target,
                                    int block, const int doubles, int n) {
    int first = 0;
    for (; first + COLUMNS <= n; first += COLUMNS)
        multiply_collected(layer, in, target, block, doubles, first, COLUMNS);
    for (; first < n; first++)
        multiply_collected(layer, in, target, block, doubles, first, 1);
}

TARGET static void multiply_skipping(const Layer *layer, const Inputs *in, const Target *target,
                                     int n) {
    int block = 0;
    for (; layer->blocks - block > 2; block += 4)
        multiply_doubles(layer, in, target, block, 2, n);
    if (block < layer->blocks)
        multiply_doubles(layer, in, target, block, 1, n);
}
