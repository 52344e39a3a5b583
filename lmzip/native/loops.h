/* The network's loops of a kernel, made from its `lanes`: included once by each of the kernels' files.
 *
 * Before that, a file defines the types `lanes` (16 numbers of 32 bits), `weights` (those of two
 * inputs for 16 outputs) and `pair` (two inputs), TARGET (what the compiler needs to know of the
 * processor), how many columns (GROUP) and blocks (TOGETHER) to evaluate at once, so that their sums
 * fill the registers, and, as inline functions named lanes_*, the few operations below. With
 * SKIPS_PAIRS it also has those that find the inputs which are not zero. Then it defines its
 * `Kernel`.
 */
#include "kernel.h"

#if defined(_MSC_VER)
#define INLINE static __forceinline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

enum { CHUNK = 24 }; /* columns whose inputs fit the first cache */

/* Where the sums of a column start, for all outputs. */
INLINE const int32_t *find_bases(const Layer *layer, const Inputs *in, int column) {
    size_t pattern = in->pattern ? (size_t)in->pattern[in->place[column]] : 0;
    return in->bases + pattern * layer->blocks * LANES;
}

typedef struct {
    lanes shift, half, odd, low, high, bits, half_bits, odd_bits, top;
} Finish;

TARGET INLINE Finish prepare_finish(const Layer *layer, const Target *target, size_t lane) {
    const int bits = target->bits;
    Finish finish = {lanes_load(layer->shift + lane),
                     lanes_load(layer->half + lane),
                     lanes_load(layer->odd + lane),
                     lanes_set(target->low),
                     lanes_set(target->high),
                     lanes_set(bits),
                     lanes_set(bits ? (1 << (bits - 1)) - 1 : 0),
                     lanes_set(bits != 0),
                     lanes_set(target->top)};
    return finish;
}

/* Round the sums of a block for a column, and put them where they belong. */
TARGET INLINE void finish_sums(const Target *target, int column, size_t lane, lanes sums,
                               Finish with) {
    const size_t place = (size_t)column * target->stride + lane;
    lanes result = lanes_round(sums, with.half, with.odd, with.shift);
    if (target->kind == ADD_TO_STREAM || target->kind == ADD_WIDE)
        result = lanes_add(result, lanes_load(target->wide + place));
    result = lanes_clip(result, with.low, with.high);
    if (target->kind == SET_NARROW) {
        lanes_narrow(target->narrow + place, result);
        return;
    }
    lanes_store(target->wide + place, result);
    if (target->kind == SET_STREAM || target->kind == ADD_TO_STREAM) {
        result = lanes_round(result, with.half_bits, with.odd_bits, with.bits);
        lanes_narrow(target->narrow + target->at[column] * target->stride + lane,
                     lanes_clip(result, lanes_set(0), with.top));
    }
}

/* Evaluate some blocks of outputs for `count` columns from `first` on. Both numbers are constants
 * wherever this is called, so that the sums stay in registers: each weight that is loaded serves
 * all columns, each pair of inputs all blocks. */
TARGET INLINE void multiply_group(const Layer *layer, const Inputs *in, const Target *target,
                                  int block, const int blocks, int first, const int count) {
    const size_t step = 2 * LANES, each = layer->pairs * step, apart = layer->taps * each;
    const uint32_t *at = in->at + (size_t)first * in->used;
    const size_t lane = (size_t)block * LANES;
    lanes sums[TOGETHER][GROUP];
    for (int i = 0; i < count; i++) {
        const int32_t *bases = find_bases(layer, in, first + i) + lane;
        for (int b = 0; b < blocks; b++)
            sums[b][i] = lanes_load(bases + b * LANES);
    }
    for (int u = 0; u < in->used; u++) {
        const int16_t *rows[GROUP];
        int hidden = 0;
        for (int i = 0; i < count; i++) {
            uint32_t row = at[i * in->used + u];
            hidden += row == in->hidden;
            rows[i] = in->rows + row * in->stride;
        }
        if (hidden == count)
            continue;
        const int16_t *w = layer->weights + block * apart + in->taps[u] * each;
        for (int k = 0; k < layer->pairs; k++, w += step) {
            weights both[TOGETHER];
            for (int b = 0; b < blocks; b++)
                both[b] = lanes_weights(w + b * apart);
            for (int i = 0; i < count; i++) {
                pair x = lanes_pair(rows[i] + 2 * k);
                for (int b = 0; b < blocks; b++)
                    sums[b][i] = lanes_dot(sums[b][i], x, both[b]);
            }
        }
    }
    for (int b = 0; b < blocks; b++) {
        const size_t of_block = lane + b * LANES;
        Finish finish = prepare_finish(layer, target, of_block);
        for (int i = 0; i < count; i++)
            finish_sums(target, first + i, of_block, sums[b][i], finish);
    }
}

/* Evaluate some blocks, a constant number, for the columns first..end. */
TARGET INLINE void multiply_blocks(const Layer *layer, const Inputs *in, const Target *target,
                                   int block, const int blocks, int first, int end) {
    for (; first + GROUP <= end; first += GROUP)
        multiply_group(layer, in, target, block, blocks, first, GROUP);
    for (; GROUP > 2 && first + 2 <= end; first += 2)
        multiply_group(layer, in, target, block, blocks, first, 2);
    for (; first < end; first++)
        multiply_group(layer, in, target, block, blocks, first, 1);
}

#if defined(SKIPS_PAIRS)
#include "skip_pairs.h"
#elif defined(SKIPS_INPUTS)
#include "skip_inputs.h"
#endif

/* The rows that a chunk of columns reads stay in the first cache while all outputs go over them;
 * the weights come from the second, each of them once a chunk. */
TARGET static void multiply(const Layer *layer, const Inputs *in, const Target *target, int n) {
#if defined(SKIPS_PAIRS) || defined(SKIPS_INPUTS)
    if (layer->skips) {
        multiply_skipping(layer, in, target, n);
        return;
    }
#endif
    for (int first = 0; first < n; first += CHUNK) {
        int end = first + CHUNK < n ? first + CHUNK : n, block = 0;
        for (; block + TOGETHER <= layer->blocks; block += TOGETHER)
            multiply_blocks(layer, in, target, block, TOGETHER, first, end);
        const int left = layer->blocks - block; /* fewer than TOGETHER */
        if (TOGETHER > 3 && left == 3)
            multiply_blocks(layer, in, target, block, 3, first, end);
        else if (TOGETHER > 2 && left == 2)
            multiply_blocks(layer, in, target, block, 2, first, end);
        else if (TOGETHER > 1 && left == 1)
            multiply_blocks(layer, in, target, block, 1, first, end);
    }
}

TARGET INLINE int32_t clip_number(int32_t x, int32_t low, int32_t high) {
    return x < low ? low : x > high ? high : x;
}

TARGET static void predict(const Predictor *predictor, const int32_t *inputs, int32_t *outputs) {
    const int channels = predictor->channels, mixtures = predictor->mixtures;
    const int shift = predictor->shift;
    const int32_t *weights = predictor->weights;
    int32_t *mean = outputs + mixtures;
    for (int c = 0; c < channels; c++) {
        int32_t sums[NEIGHBOURS] = {0}, sum = 0;
        for (int e = 0; e < channels; e++, weights += NEIGHBOURS)
            for (int t = 0; t < NEIGHBOURS; t++)
                sums[t] += weights[t] * inputs[NEIGHBOURS * e + t];
        for (int t = 0; t < NEIGHBOURS; t++)
            sum += sums[t];
        if (shift)
            sum = (sum + (1 << (shift - 1)) - 1 + (sum >> shift & 1)) >> shift;
        sum += predictor->middle;
        for (int k = 0; k < mixtures; k++, mean++)
            *mean = clip_number(*mean + sum, predictor->low, predictor->high);
    }
    int32_t *coefficient = mean + channels * mixtures; /* after the log-scales */
    for (int k = 0; k < channels * (channels - 1) / 2 * mixtures; k++)
        coefficient[k] = clip_number(coefficient[k], -predictor->largest, predictor->largest);
}
