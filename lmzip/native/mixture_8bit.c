/* Nibbles of 8-bit samples (FORMAT.md, "Mixture"): the high one, then the low one within it. */
#include "mixture.h"

enum { TOTAL_BITS = WEIGHT_BITS + CDF_BITS, LONGEST_COST = 24 };

/* A logistic's cumulative function below a level, at most 2^16. */
static uint32_t find_logistic(const Network *network, int32_t scale, int32_t zero, int level) {
    if (level == 0)
        return 0; /* the edge bins are open */
    if (level == LEVELS)
        return 1 << CDF_BITS;
    int32_t entry = (((level << MEAN_BITS) - HALF_LEVEL) * scale - zero) >> SCALE_BITS;
    return (uint32_t)network->logistic[clip(entry, 0, TABLE_END)];
}

int weigh(Run *run, int column, int sample) {
    const Network *network = run->network;
    const size_t first = (size_t)column * network->mixtures;
    uint32_t any = 0;
    for (int k = 0; k < network->mixtures; k++) {
        const int32_t scale = run->scale[first + k], zero = run->zero[first + k];
        uint32_t above = find_logistic(network, scale, zero, sample + 1);
        uint32_t likely = above - find_logistic(network, scale, zero, sample);
        run->values[k] = likely * (uint32_t)run->weight[first + k];
        any |= run->values[k];
    }
    return any != 0;
}

static Logistics logistics_of(const Run *run, int column) {
    const size_t first = (size_t)column * run->network->mixtures;
    Logistics all = {run->network->mixtures, run->scale + first, run->zero + first,
                     run->weight + first, NULL, run->network->logistic};
    return all;
}

/* Find the frequencies, less one, of the high nibbles of the columns at hand. */
static void find_high(Run *run, float *frequencies) {
    for (int i = 0; i < run->n; i++, frequencies += NIBBLES) {
        uint32_t *cdf = run->high_cdf + (size_t)i * (NIBBLES + 1);
        Logistics all = logistics_of(run, i);
        cdf[0] = 0;
        run->network->kernel->cumulate(&all, NIBBLES, cdf + 1);
        cdf[NIBBLES] = (uint32_t)1 << TOTAL_BITS;
        uint32_t before = 0;
        for (int j = 0; j < NIBBLES; j++) {
            uint32_t end = (uint32_t)((uint64_t)cdf[j + 1] * SHARED >> TOTAL_BITS);
            frequencies[j] = (float)(int32_t)(end - before);
            before = end;
        }
    }
}

/* Find the frequencies, less one, of the low nibbles, given the high ones. */
static void find_low(Run *run, float *frequencies) {
    const int32_t *high = run->taken;
    const int mixtures = run->network->mixtures;
    for (int i = 0; i < run->n; i++, frequencies += NIBBLES) {
        const uint32_t *ends = run->high_cdf + (size_t)i * (NIBBLES + 1) + high[i];
        const uint32_t start = ends[0], total = ends[1] - start;
        uint32_t cdf[LANES];
        if (total) {
            /* Places count from the start of the high nibble. */
            Logistics all = logistics_of(run, i);
            for (int k = 0; k < mixtures; k++)
                run->moved[k] = all.zero[k] - (high[i] << (4 + MEAN_BITS)) * all.scale[k];
            all.zero = run->moved;
            run->network->kernel->cumulate(&all, 1, cdf);
        }
        Ratio ratio = make_ratio(SHARED, total ? total : NIBBLES);
        uint32_t before = 0;
        for (int j = 0; j < NIBBLES; j++) { /* evenly where the mixture is empty */
            uint32_t part = !total ? (uint32_t)j + 1 : j + 1 < NIBBLES ? cdf[j] - start : total;
            uint32_t end = (uint32_t)share(&ratio, part);
            frequencies[j] = (float)(int32_t)(end - before);
            before = end;
        }
    }
}

void find_frequencies(Run *run, float *frequencies) {
    if (run->symbol)
        find_low(run, frequencies);
    else
        find_high(run, frequencies);
}

/* The mixture's cumulative function below a level. */
static uint64_t cumulative(const Run *run, int column, int level) {
    const size_t first = (size_t)column * run->network->mixtures;
    uint64_t sum = 0;
    if (level == LEVELS)
        return (uint64_t)1 << TOTAL_BITS;
    for (int k = 0; k < run->network->mixtures; k++)
        sum += (uint64_t)find_logistic(run->network, run->scale[first + k], run->zero[first + k], level) *
               (uint32_t)run->weight[first + k];
    return sum;
}

void find_intervals(const Run *run, int column, int sample, int32_t *ends, int64_t *cost) {
    const int high = sample >> 4, low = sample & 15;
    const uint64_t start = cumulative(run, column, high << 4);
    const uint64_t stop = cumulative(run, column, (high + 1) << 4);
    const uint64_t below = cumulative(run, column, sample);
    const uint64_t above = cumulative(run, column, sample + 1);
    const int empty = start == stop;
    Ratio ratio = make_ratio(SHARED, empty ? NIBBLES : stop - start);
    ends[0] = (int32_t)(start * SHARED >> TOTAL_BITS) + high;
    ends[1] = (int32_t)(stop * SHARED >> TOTAL_BITS) + high + 1;
    ends[2] = (int32_t)share(&ratio, empty ? (uint64_t)low : below - start) + low;
    ends[3] = (int32_t)share(&ratio, empty ? (uint64_t)low + 1 : above - start) + low + 1;
    *cost = find_cost(run->network, above - below, TOTAL_BITS, LONGEST_COST);
}
