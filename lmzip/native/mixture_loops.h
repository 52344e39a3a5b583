/* The mixture's loops of a kernel, made from its `lanes`: included once by each of the kernels' files,
 * after loops.h. Lanes are logistics, or the places of a nibble (FORMAT.md, "Mixture"). */
#include "kernel.h"

TARGET static void place(const Logistics *all, const Source *source) {
    const int32_t *means = source->outputs + (size_t)all->count;
    const int32_t *log_scales = means + (size_t)source->channels * all->count;
    const int32_t *coefficients = log_scales + (size_t)source->channels * all->count;
    const int channel = source->channel;
    coefficients += (size_t)channel * (channel - 1) / 2 * all->count;
    const lanes half = lanes_set(1 << (COEFFICIENT_BITS - 1));
    const lanes middle = lanes_set((TABLE_END + 1) / 2 << SCALE_BITS);
    const lanes low = lanes_set(MEAN_LOW), high = lanes_set(MEAN_HIGH);
    const lanes last = lanes_set(source->inverse_scales - 1);
    for (int k = 0; k < all->count; k += LANES) {
        lanes mean = lanes_load(means + channel * all->count + k);
        for (int e = 0; e < channel; e++) { /* products stay below 2^27 */
            lanes residual = lanes_load(means + e * all->count + k);
            residual = lanes_subtract(lanes_set(source->levels[e]), residual);
            lanes shift = lanes_multiply(lanes_load(coefficients + e * all->count + k), residual);
            mean = lanes_add(mean, lanes_down(lanes_add(shift, half), COEFFICIENT_BITS));
        }
        lanes index = lanes_load(log_scales + channel * all->count + k);
        lanes scale = lanes_look_up(source->inverse_scale, lanes_clip(index, lanes_set(0), last));
        mean = lanes_multiply(lanes_clip(mean, low, high), scale);
        lanes_store(all->scale + k, scale);
        lanes_store(all->zero + k, lanes_subtract(mean, middle));
    }
}

/* The functions of logistics k to k + 15 below a level, at most 2^16. */
TARGET INLINE lanes find_logistics(const Logistics *all, int k, int level) {
    if (level == 0)
        return lanes_set(0); /* the edge bins are open */
    if (level == LEVELS)
        return lanes_set(1 << CDF_BITS);
    lanes entry = lanes_set((level << MEAN_BITS) - HALF_LEVEL);
    entry = lanes_multiply(entry, lanes_load(all->scale + k));
    entry = lanes_down(lanes_subtract(entry, lanes_load(all->zero + k)), SCALE_BITS);
    return lanes_look_up(all->table, lanes_clip(entry, lanes_set(0), lanes_set(TABLE_END)));
}

/* Keep what gradients need to know of logistics k to k + 15, given their functions below and above a
 * sample. */
TARGET INLINE void note_parts(const Logistics *all, int k, int sample, lanes below, lanes above,
                              int32_t *parts) {
    enum { UNIT = 22369622, DISTANCE_BITS = 13 };
    const size_t row = (size_t)(all->count + LANES - 1) / LANES * LANES;
    const lanes scale = lanes_load(all->scale + k), zero = lanes_load(all->zero + k);
    lanes slope = lanes_subtract(lanes_add(below, above), lanes_set(1 << CDF_BITS));
    lanes entry = lanes_subtract(lanes_multiply(lanes_set(sample << MEAN_BITS), scale), zero);
    entry = lanes_clip(lanes_down(entry, SCALE_BITS), lanes_set(0), lanes_set(TABLE_END));
    slope = lanes_down(slope, 1);
    lanes beyond = lanes_subtract(entry, lanes_set((TABLE_END + 1) / 2));
    beyond = lanes_add(lanes_multiply(beyond, slope), lanes_set((1 << (DISTANCE_BITS - 1)) - UNIT));
    lanes_store(parts + SLOPE * row + k, slope);
    lanes_store(parts + SCALE * row + k, lanes_down(scale, 1));
    lanes_store(parts + BEYOND * row + k, lanes_down(beyond, DISTANCE_BITS));
}

TARGET static void weigh(const Logistics *all, int sample, uint32_t *values, int32_t *parts) {
    for (int k = 0; k < all->count; k += LANES) {
        lanes below = find_logistics(all, k, sample), above = find_logistics(all, k, sample + 1);
        lanes likely = lanes_multiply(lanes_subtract(above, below), lanes_load(all->weight + k));
        lanes_store((int32_t *)values + k, likely);
        if (parts)
            note_parts(all, k, sample, below, above, parts);
    }
}

TARGET static uint32_t cumulative(const Logistics *all, int level) {
    lanes sum = lanes_set(0);
    for (int k = 0; k < all->count; k += LANES) {
        lanes values = find_logistics(all, k, level);
        sum = lanes_add(sum, lanes_multiply(values, lanes_load(all->weight + k)));
    }
    int32_t sums[LANES];
    uint32_t total = 0;
    lanes_store(sums, sum);
    for (int k = 0; k < LANES; k++)
        total += (uint32_t)sums[k];
    return total;
}

/* The mixture's cumulative function below levels first + apart, first + 2 * apart, ... */
TARGET INLINE lanes cumulate(const Logistics *all, int first, int apart) {
    static const int32_t numbers[LANES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    lanes places = lanes_multiply(lanes_load(numbers), lanes_set(apart << MEAN_BITS));
    places = lanes_add(places, lanes_set((first << MEAN_BITS) - HALF_LEVEL));
    lanes sum = lanes_set(0), zero = lanes_set(0), end = lanes_set(TABLE_END);
    for (int k = 0; k < all->count; k++) {
        lanes entry = lanes_multiply(places, lanes_set(all->scale[k]));
        entry = lanes_down(lanes_subtract(entry, lanes_set(all->zero[k])), SCALE_BITS);
        lanes value = lanes_look_up(all->table, lanes_clip(entry, zero, end));
        sum = lanes_add(sum, lanes_multiply(value, lanes_set(all->weight[k])));
    }
    return sum;
}

TARGET static void find_high(const Logistics *all, uint32_t cdf[LANES + 1],
                             float frequencies[LANES]) {
    uint32_t ends[LANES];
    lanes_store((int32_t *)cdf + 1, cumulate(all, 0, LANES));
    for (int j = 0; j < LANES; j++)
        ends[j] = (uint32_t)((uint64_t)cdf[j + 1] * SHARED >> TOTAL_BITS);
    lanes_floats(frequencies, lanes_rises(lanes_load((const int32_t *)ends)));
    frequencies[LANES - 1] = (float)(int32_t)(SHARED - ends[LANES - 2]); /* the edge bins are open */
    cdf[0] = 0;
    cdf[LANES] = (uint32_t)1 << TOTAL_BITS;
}

/* The shares of a nibble are floor(part * SHARED / total). With the total moved up to the highest of
 * 32 bits, a factor that is rounded down, by less than one, estimates them: parts are below 2^32, so
 * the estimate is too small by less than 2^-7, and its integer part by one at most. */
TARGET static void find_low(const Logistics *all, int high, const uint32_t limits[2],
                            float frequencies[LANES]) {
    enum { FACTOR_BITS = 39 };
    const uint32_t whole = limits[1] - limits[0];
    uint32_t cdf[LANES], ends[LANES];
    if (!whole) { /* evenly where the mixture is empty */
        for (int j = 0; j < LANES; j++)
            frequencies[j] = SHARED / LANES;
        return;
    }
    lanes_store((int32_t *)cdf, cumulate(all, high * LANES, 1));
    const int up = count_leading_zeros(whole);
    const uint32_t total = whole << up;
    const uint32_t factor = (uint32_t)(((uint64_t)SHARED << FACTOR_BITS) / total);
    for (int j = 0; j < LANES; j++) {
        const uint32_t part = (cdf[j] - limits[0]) << up;
        const uint32_t estimate = (uint32_t)((uint64_t)part * factor >> FACTOR_BITS);
        const uint64_t rest = (uint64_t)part * SHARED - (uint64_t)estimate * total;
        ends[j] = estimate + 1 - (uint32_t)((rest - total) >> 63); /* one more if rest >= total */
    }
    lanes_floats(frequencies, lanes_rises(lanes_load((const int32_t *)ends)));
    frequencies[LANES - 1] = (float)(int32_t)(SHARED - ends[LANES - 2]);
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
