/* The loops of a kernel, made from its `lanes`: included once by each of the kernels' files.
 *
 * Before that, a file defines the types `lanes` (16 numbers of 32 bits), `weights` (those of two
 * inputs for 16 outputs) and `pair` (two inputs), TARGET (what the compiler needs to know of the
 * processor), how many columns (GROUP) and blocks (TOGETHER) to evaluate at once, so that their sums
 * fill the registers, and, as inline functions named lanes_*, the few operations below. Then it
 * defines its `Kernel`.
 */
#include "kernel.h"

#if defined(_MSC_VER)
#define INLINE static __forceinline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

enum { CHUNK = 24 }; /* columns whose inputs fit the first cache */

/* Evaluate some blocks of outputs for `count` columns from `first` on. Both numbers are constants
 * wherever this is called, so that the sums stay in registers: each weight that is loaded serves
 * all columns, each pair of inputs all blocks. */
TARGET INLINE void multiply_group(const Layer *layer, const Inputs *in, const Target *target,
                                  int block, const int blocks, int first, const int count) {
    const size_t step = 2 * LANES, width = (size_t)layer->blocks * LANES;
    const size_t each = (size_t)layer->pairs * step, apart = layer->taps * each;
    const size_t lane = (size_t)block * LANES;
    const uint32_t *at = in->at + (size_t)first * in->used;
    lanes sums[TOGETHER][GROUP];
    for (int i = 0; i < count; i++) {
        size_t pattern = in->pattern ? (size_t)in->pattern[in->place[first + i]] : 0;
        for (int b = 0; b < blocks; b++)
            sums[b][i] = lanes_load(in->bases + pattern * width + lane + b * LANES);
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

    lanes low = lanes_set(target->low), high = lanes_set(target->high);
    for (int b = 0; b < blocks; b++) {
        const size_t of_block = lane + b * LANES;
        lanes shift = lanes_load(layer->shift + of_block);
        lanes half = lanes_load(layer->half + of_block), odd = lanes_load(layer->odd + of_block);
        for (int i = 0; i < count; i++) {
            size_t place = (first + i) * target->stride + of_block;
            lanes result = lanes_round(sums[b][i], half, odd, shift);
            if (target->kind == ADD_TO_WIDE)
                result = lanes_add(result, lanes_load(target->wide + place));
            result = lanes_clip(result, low, high);
            if (target->kind == SET_NARROW)
                lanes_narrow(target->narrow + place, result);
            else
                lanes_store(target->wide + place, result);
        }
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

/* The rows that a chunk of columns reads stay in the first cache while all outputs go over them;
 * the weights come from the second, each of them once a chunk. */
TARGET static void multiply(const Layer *layer, const Inputs *in, const Target *target, int n) {
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
        entry = lanes_down(lanes_subtract(entry, lanes_set(all->zero[k])));
        lanes value = lanes_look_up(all->table, lanes_clip(entry, zero, end));
        sum = lanes_add(sum, lanes_multiply(value, lanes_set(all->weight[k])));
    }
    lanes_store((int32_t *)cdf, sum);
}
