/* The loops of a kernel, made from its `lanes`: included once by each of the kernels' files.
 *
 * Before that, a file defines the types `lanes` (16 numbers of 32 bits), `weights` (those of two
 * inputs for 16 outputs) and `pair` (two inputs), TARGET (what the compiler needs to know of the
 * processor), how many columns (GROUP) and blocks (TOGETHER) to evaluate at once, so that their sums
 * fill the registers, and, as inline functions named lanes_*, the few operations below. With
 * SKIPS_ZEROS it also has those that find the inputs which are not zero. Then it defines its
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
    lanes shift, half, odd, low, high;
} Finish;

TARGET INLINE Finish prepare_finish(const Layer *layer, const Target *target, size_t lane) {
    Finish finish = {lanes_load(layer->shift + lane), lanes_load(layer->half + lane),
                     lanes_load(layer->odd + lane), lanes_set(target->low),
                     lanes_set(target->high)};
    return finish;
}

/* Round the sums of a block, and put them where they belong. */
TARGET INLINE void finish_sums(const Target *target, size_t place, lanes sums, Finish with) {
    lanes result = lanes_round(sums, with.half, with.odd, with.shift);
    if (target->kind == ADD_TO_WIDE)
        result = lanes_add(result, lanes_load(target->wide + place));
    result = lanes_clip(result, with.low, with.high);
    if (target->kind == SET_NARROW)
        lanes_narrow(target->narrow + place, result);
    else
        lanes_store(target->wide + place, result);
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
            finish_sums(target, (first + i) * target->stride + of_block, sums[b][i], finish);
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

#ifdef SKIPS_ZEROS
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
            finish_sums(target, i * target->stride + of_block, sums[b],
                        prepare_finish(layer, target, of_block));
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
#endif

/* The rows that a chunk of columns reads stay in the first cache while all outputs go over them;
 * the weights come from the second, each of them once a chunk. */
TARGET static void multiply(const Layer *layer, const Inputs *in, const Target *target, int n) {
#ifdef SKIPS_ZEROS
    if (layer->by_pair) {
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

TARGET static void activate(const int32_t *stream, int blocks, int n, int bits, int32_t high,
                            int16_t *rows, const uint32_t *at) {
    const size_t width = (size_t)blocks * LANES;
    lanes shift = lanes_set(bits), half = lanes_set(bits ? (1 << (bits - 1)) - 1 : 0);
    lanes odd = lanes_set(bits != 0), zero = lanes_set(0), top = lanes_set(high);
    for (int i = 0; i < n; i++)
        for (size_t lane = 0; lane < width; lane += LANES) {
            lanes result = lanes_round(lanes_load(stream + i * width + lane), half, odd, shift);
            lanes_narrow(rows + at[i] * width + lane, lanes_clip(result, zero, top));
        }
}

TARGET static void cumulate(const Logistics *all, int apart, uint32_t cdf[LANES]) {
    static const int32_t numbers[LANES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    lanes places = lanes_multiply(lanes_load(numbers), lanes_set(apart << MEAN_BITS));
    places = lanes_subtract(places, lanes_set(HALF_LEVEL));
    lanes sum = lanes_set(0), zero = lanes_set(0), end = lanes_set(TABLE_END);
    for (int k = 0; k < all->count; k++) {
        lanes entry = lanes_multiply(places, lanes_set(all->scale[k]));
        entry = lanes_down(lanes_subtract(entry, lanes_set(all->zero[k])), SCALE_BITS);
        lanes value = lanes_look_up(all->table, lanes_clip(entry, zero, end));
        sum = lanes_add(sum, lanes_multiply(value, lanes_set(all->weight[k])));
    }
    lanes_store((int32_t *)cdf, sum);
}

/* Whatever lies beyond a logistic's limit is taken to lie there, where the table has ended: so 32
 * bits hold the products. Sums of up to 2^39 are made in two parts. */
TARGET static void cumulate_deep(const Logistics *all, const int32_t boundaries[LANES],
                                 uint64_t sums[LANES]) {
    enum { LOW_BITS = 12 };
    lanes places = lanes_subtract(lanes_load(boundaries), lanes_set(DEEP_HALF_LEVEL));
    lanes middle = lanes_set((TABLE_END + 1) / 2 << BETWEEN_BITS), zero = lanes_set(0);
    lanes last = lanes_set(TABLE_END << BETWEEN_BITS), end = lanes_set(TABLE_END);
    lanes steps = lanes_set(1 << BETWEEN_BITS), within = lanes_set((1 << BETWEEN_BITS) - 1);
    lanes low = zero, high = zero;
    for (int k = 0; k < all->count; k++) {
        lanes entry = lanes_subtract(places, lanes_set(all->zero[k]));
        entry = lanes_clip(entry, lanes_set(-all->limit[k]), lanes_set(all->limit[k]));
        entry = lanes_down(lanes_multiply(entry, lanes_set(all->scale[k])), DEEP_SCALE_BITS);
        entry = lanes_clip(lanes_add(entry, middle), zero, last);
        lanes at = lanes_down(entry, BETWEEN_BITS);
        lanes first = lanes_look_up(all->table, at);
        lanes next = lanes_look_up(all->table, lanes_clip(lanes_add(at, lanes_set(1)), zero, end));
        lanes rise = lanes_multiply(lanes_subtract(next, first), lanes_and(entry, within));
        lanes value = lanes_add(lanes_multiply(first, steps), rise);
        lanes weight = lanes_set(all->weight[k]);
        lanes rest = lanes_and(value, lanes_set((1 << LOW_BITS) - 1));
        low = lanes_add(low, lanes_multiply(rest, weight));
        high = lanes_add(high, lanes_multiply(lanes_down(value, LOW_BITS), weight));
    }
    int32_t lows[LANES], highs[LANES];
    lanes_store(lows, low);
    lanes_store(highs, high);
    for (int j = 0; j < LANES; j++)
        sums[j] = ((uint64_t)highs[j] << LOW_BITS) + (uint32_t)lows[j];
}
