/* The loops of a network that adapts (FORMAT.md, "Adaptation"), made from a kernel's `lanes`: included
 * once by each of the kernels' files, after mixture_loops.h. */
#include "kernel.h"

#include <string.h>

enum { PULLED = GROUP < 4 ? GROUP : 4 }; /* features at once: a block of them is whole groups */

/* Divide by 2^bits and round half up. */
TARGET INLINE lanes halve(lanes x, int bits) {
    return lanes_down(lanes_add(x, lanes_set(1 << (bits - 1))), bits);
}

TARGET INLINE void put_gradients(int32_t *to, lanes values) {
    lanes_store(to, lanes_clip(values, lanes_set(-LARGEST_GRADIENT), lanes_set(LARGEST_GRADIENT)));
}

/* Find the gradients of logistics k to k + 15. All products fit 32 bits. */
TARGET INLINE void find_block(const Evidence *from, int k, int32_t *gradients) {
    enum { SLOPE_SHIFT = 15, MEAN_SHIFT = 16, LOGIT_SHIFT = 7, LOG_SCALE_SHIFT = 18, COUPLING_SHIFT = 6 };
    const int mixtures = from->mixtures, coded = from->coded;
    const int first_log_scale = (1 + from->channels) * mixtures;
    const int first_coefficient = first_log_scale + from->channels * mixtures;
    const int32_t *outputs = from->outputs + k, *parts = from->parts + k;
    const size_t row = (size_t)from->room, each = PARTS * row; /* of a channel */
    const lanes posterior = lanes_load(from->posterior + k);
    lanes pulls[MOST_ADAPTIVE], means[MOST_ADAPTIVE];
    gradients += k;
    for (int c = 0; c < coded; c++) {
        const lanes slope = lanes_load(parts + c * each + SLOPE * row);
        const lanes scale = lanes_load(parts + c * each + SCALE * row);
        const lanes share = halve(lanes_multiply(posterior, slope), SLOPE_SHIFT);
        means[c] = pulls[c] = halve(lanes_multiply(share, scale), MEAN_SHIFT);
        for (int e = 0; e < c; e++) { /* the mean of this channel started from that one */
            const int output = first_coefficient + (c * (c - 1) / 2 + e) * mixtures;
            const lanes part = lanes_multiply(lanes_load(outputs + output), pulls[c]);
            means[e] = lanes_subtract(means[e], halve(part, COEFFICIENT_BITS));
        }
    }
    put_gradients(gradients, halve(lanes_subtract(posterior, lanes_load(from->prior + k)), LOGIT_SHIFT));
    for (int c = 0; c < coded; c++)
        put_gradients(gradients + (1 + c) * mixtures, means[c]);
    for (int c = 0; c < coded; c++) {
        const lanes beyond = lanes_load(parts + c * each + BEYOND * row);
        put_gradients(gradients + first_log_scale + c * mixtures,
                      halve(lanes_multiply(posterior, beyond), LOG_SCALE_SHIFT));
    }
    gradients += first_coefficient;
    for (int c = 1; c < coded; c++)
        for (int e = 0; e < c; e++, gradients += mixtures) {
            const lanes mean = lanes_load(outputs + (1 + e) * mixtures);
            const lanes residual = lanes_subtract(lanes_set(from->levels[e]), mean);
            put_gradients(gradients, halve(lanes_multiply(pulls[c], residual), COUPLING_SHIFT));
        }
}

/* A block may end within the next kind of outputs. So later kinds come after earlier ones, and the first
 * logistics, whose blocks are all theirs, after the last ones. What logistics that weigh nothing leave
 * behind the last kind are zeros. */
TARGET static void find_gradients(const Evidence *from, int32_t *gradients) {
    for (int k = from->room - LANES; k >= 0; k -= LANES)
        find_block(from, k, gradients);
}

/* Lay out what two inputs give to 16 outputs as weights of a layer. */
TARGET INLINE void weave(int16_t *to, const int32_t *one, const int32_t *other) {
    const lanes first = lanes_load(one), second = lanes_load(other);
    if (INTERLEAVED) { /* both halves of 32 bits; the second one's sign is cut off the first's */
        const lanes low = lanes_and(first, lanes_set(0xffff));
        const lanes both = lanes_add(low, lanes_multiply(second, lanes_set(1 << 16)));
        lanes_store((int32_t *)(void *)to, both);
    } else {
        lanes_narrow(to, first);
        lanes_narrow(to + LANES, second);
    }
}

/* Lay out rows of outputs, an even number of them, as weights of a layer. */
TARGET INLINE void weave_rows(int16_t *to, const int32_t *rows, int count, int blocks) {
    const size_t outputs = (size_t)blocks * LANES;
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count; i += 2, to += 2 * LANES)
            weave(to, rows + i * outputs + b * LANES, rows + (i + 1) * outputs + b * LANES);
}

TARGET INLINE void weave_features(int16_t *to, const int16_t *one, const int16_t *other, int features) {
    for (int f = 0; f < features; f++) {
        to[2 * f] = one[f];
        to[2 * f + 1] = other[f];
    }
    to[2 * features] = to[2 * features + 1] = ONE;
}

/* Add up the products of some blocks of gradients with some features, both constants wherever this is
 * called. */
TARGET INLINE void pull_group(const Learner *learner, int pairs, int block, const int blocks,
                              int feature, const int count) {
    const size_t apart = (size_t)pairs * 2 * LANES, outputs = (size_t)learner->blocks * LANES;
    const size_t step = 2 * ((size_t)learner->features + 1);
    const int16_t *w = learner->woven + block * apart, *x = learner->inputs + 2 * (size_t)feature;
    int32_t *to = learner->sums + feature * outputs + (size_t)block * LANES;
    lanes sums[TOGETHER][PULLED];
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count; i++)
            sums[b][i] = lanes_set(0);
    for (int p = 0; p < pairs; p++, w += 2 * LANES, x += step) {
        weights both[TOGETHER];
        for (int b = 0; b < blocks; b++)
            both[b] = lanes_weights(w + b * apart);
        for (int i = 0; i < count; i++) {
            const pair seen = lanes_pair(x + 2 * i);
            for (int b = 0; b < blocks; b++)
                sums[b][i] = lanes_dot(sums[b][i], seen, both[b]);
        }
    }
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count; i++)
            lanes_store(to + i * outputs + b * LANES, sums[b][i]);
}

TARGET INLINE void pull_blocks(const Learner *learner, int pairs, int block, const int blocks) {
    int feature = 0;
    for (; feature < learner->features; feature += PULLED)
        pull_group(learner, pairs, block, blocks, feature, PULLED);
    pull_group(learner, pairs, block, blocks, feature, 1); /* the constant */
}

TARGET static void pull(const Learner *learner, const int16_t *rows, int n) {
    const int features = learner->features, blocks = learner->blocks, pairs = (n + 1) / 2;
    const size_t outputs = (size_t)blocks * LANES, all = (features + 1) * outputs;
    if (n % 2) /* nothing pulls where there is no column, whatever its features */
        memset(learner->gradients + n * outputs, 0, outputs * sizeof *learner->gradients);
    weave_rows(learner->woven, learner->gradients, 2 * pairs, blocks);
    for (int p = 0; p < pairs; p++) {
        const int16_t *one = rows + (size_t)2 * p * features;
        const int16_t *other = 2 * p + 1 < n ? one + features : one;
        weave_features(learner->inputs + (size_t)p * 2 * (features + 1), one, other, features);
    }
    int block = 0;
    for (; block + TOGETHER <= blocks; block += TOGETHER)
        pull_blocks(learner, pairs, block, TOGETHER);
    const int left = blocks - block; /* fewer than TOGETHER */
    if (TOGETHER > 3 && left == 3)
        pull_blocks(learner, pairs, block, 3);
    else if (TOGETHER > 2 && left == 2)
        pull_blocks(learner, pairs, block, 2);
    else if (TOGETHER > 1 && left == 1)
        pull_blocks(learner, pairs, block, 1);
    int64_t *restrict pulls = learner->pulls;
    const int32_t *restrict sums = learner->sums;
    for (size_t j = 0; j < all; j++)
        pulls[j] += sums[j];
}

/* Move changes to where they are pulled, and forget a part of the pull. */
TARGET INLINE void move_row(int32_t *restrict changes, int64_t *restrict pulls,
                            const int32_t *restrict rates, int outputs) {
    for (int o = 0; o < outputs; o++) {
        const int64_t before = pulls[o];
        const int32_t sign = (before > 0) - (before < 0);
        pulls[o] = before - (before >> FORGET);
        changes[o] = clip_number(changes[o] + sign * rates[o], -MOST_CHANGE, MOST_CHANGE);
    }
}

TARGET static void move(const Learner *learner) {
    const int outputs = learner->blocks * LANES;
    const int32_t *of_constant = learner->changes + (size_t)learner->features * outputs;
    for (int f = 0; f <= learner->features; f++)
        move_row(learner->changes + (size_t)f * outputs, learner->pulls + (size_t)f * outputs,
                 learner->rates, outputs);
    weave_rows(learner->weights, learner->changes, learner->features, learner->blocks);
    for (int o = 0; o < outputs; o++)
        learner->bases[o] = ONE * of_constant[o];
}
