/* The mixture of the columns at hand, channel after channel (FORMAT.md, "Mixture"). */
#include "network.h"

enum {
    WEIGHT_BITS = 15,
    CDF_BITS = 16,
    TOTAL_BITS = WEIGHT_BITS + CDF_BITS,
    COEFFICIENT_BITS = 10,
    COST_BITS = 16,
    LONGEST_COST = 24,
    SHARED = (1 << 24) - NIBBLES, /* what is left once each of 16 symbols has one unit */
    MEAN_LOW = -4096,
    MEAN_HIGH = 20480,
    RATIO_BITS = 39
};

static int32_t clip(int32_t x, int32_t low, int32_t high) {
    return x < low ? low : x > high ? high : x;
}

/* floor(part * shared / total) for many parts from 0 to total, with one division. */
typedef struct {
    uint64_t shared, total, factor;
} Ratio;

static Ratio make_ratio(uint64_t shared, uint64_t total) {
    Ratio ratio = {shared, total, (shared << RATIO_BITS) / total};
    return ratio;
}

/* The factor is rounded down, by less than one, and parts are below 2^32: so the estimate is too
 * small by less than 2^-7, and its integer part by one at most. Products stay below 2^63, since
 * shared is below 2^24. */
static uint64_t share(const Ratio *ratio, uint64_t part) {
    uint64_t estimate = part * ratio->factor >> RATIO_BITS;
    return estimate + (part * ratio->shared - estimate * ratio->total >= ratio->total);
}

/* Set weights in proportion to K values, not all zero, so that they add up to 2^15 exactly. */
static void normalise(const uint32_t *values, int mixtures, int32_t *weights) {
    uint64_t total = 0, end = 0;
    for (int k = 0; k < mixtures; k++)
        total += values[k];
    Ratio ratio = make_ratio(1 << WEIGHT_BITS, total);
    int32_t before = 0;
    for (int k = 0; k < mixtures; k++) {
        end += values[k];
        int32_t upto = (int32_t)share(&ratio, end);
        weights[k] = upto - before;
        before = upto;
    }
}

static const int32_t *outputs_of(const Run *run, int column, int kind) {
    const Network *network = run->network;
    return run->outputs + (size_t)column * network->out.blocks * LANES +
           (size_t)kind * network->mixtures;
}

/* Set scales and positions of a column's logistics for a channel. `shift` is what the earlier
 * channels add to the means, and may be NULL for the first channel. */
static void start_channel(const Run *run, int column, int channel, const int32_t *shift) {
    const Network *network = run->network;
    const int mixtures = network->mixtures;
    const int32_t *mean = outputs_of(run, column, 1 + channel);
    const int32_t *log_scale = outputs_of(run, column, 1 + network->channels + channel);
    int32_t *scale = run->scale + (size_t)column * mixtures;
    int32_t *zero = run->zero + (size_t)column * mixtures;
    for (int k = 0; k < mixtures; k++) {
        int32_t m = shift ? clip(mean[k] + shift[k], MEAN_LOW, MEAN_HIGH) : mean[k];
        scale[k] = network->inverse_scale[clip(log_scale[k], 0, network->inverse_scales - 1)];
        zero[k] = m * scale[k] - (((TABLE_END + 1) / 2) << SCALE_BITS);
    }
}

/* Begin with the first channel of the columns at hand. */
void begin_mixture(Run *run) {
    const Network *network = run->network;
    const int mixtures = network->mixtures;
    run->channel = 0;
    for (int i = 0; i < run->n; i++) {
        const int32_t *logits = outputs_of(run, i, 0);
        uint32_t *values = run->values;
        int32_t largest = logits[0];
        for (int k = 1; k < mixtures; k++)
            largest = logits[k] > largest ? logits[k] : largest;
        for (int k = 0; k < mixtures; k++)
            values[k] = (uint32_t)network->weight[clip(largest - logits[k], 0, network->weights - 1)];
        normalise(values, mixtures, run->weight + (size_t)i * mixtures);
        start_channel(run, i, 0, NULL);
    }
}

static Logistics logistics_of(const Run *run, int column) {
    const size_t first = (size_t)column * run->network->mixtures;
    Logistics all = {run->network->mixtures, run->scale + first, run->zero + first,
                     run->weight + first, run->network->logistic};
    return all;
}

/* Find the frequencies, less one, of the high nibbles of the columns at hand. */
void find_high(Run *run, float *frequencies) {
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
void find_low(Run *run, const int32_t *high, float *frequencies) {
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
        run->high[i] = high[i];
    }
}

/* A logistic's cumulative function below a level. */
static uint32_t logistic(const Network *network, int32_t scale, int32_t zero, int level) {
    if (level == 0)
        return 0; /* the edge bins are open */
    if (level == LEVELS)
        return 1 << CDF_BITS;
    int32_t entry = (((level << MEAN_BITS) - HALF_LEVEL) * scale - zero) >> SCALE_BITS;
    return (uint32_t)network->logistic[clip(entry, 0, TABLE_END)];
}

/* Take in a column's sample of this channel, and move it to the next channel. */
void observe(Run *run, int column, int sample) {
    const Network *network = run->network;
    const int mixtures = network->mixtures, next = run->channel + 1;
    const size_t first = (size_t)column * mixtures;
    int32_t *weight = run->weight + first;
    uint32_t any = 0;
    for (int k = 0; k < mixtures; k++) {
        int32_t scale = run->scale[first + k], zero = run->zero[first + k];
        uint32_t above = logistic(network, scale, zero, sample + 1);
        run->values[k] = (above - logistic(network, scale, zero, sample)) * (uint32_t)weight[k];
        any |= run->values[k];
    }
    if (any) /* otherwise the weights stay as they are */
        normalise(run->values, mixtures, weight);

    run->seen[(size_t)column * network->channels + run->channel] = sample;
    for (int k = 0; k < mixtures; k++)
        run->moved[k] = 0;
    for (int e = 0; e < next; e++) {
        const int32_t *mean = outputs_of(run, column, 1 + e);
        const int32_t *coefficient =
            outputs_of(run, column, 1 + 2 * network->channels + next * (next - 1) / 2 + e);
        int32_t level = run->seen[(size_t)column * network->channels + e] << MEAN_BITS;
        for (int k = 0; k < mixtures; k++)
            run->moved[k] += (coefficient[k] * (level - mean[k]) + (1 << (COEFFICIENT_BITS - 1))) >>
                             COEFFICIENT_BITS;
    }
    start_channel(run, column, next, run->moved);
}

/* The mixture's cumulative function below a level. */
static uint64_t cumulative(const Run *run, int column, int level) {
    const size_t first = (size_t)column * run->network->mixtures;
    uint64_t sum = 0;
    if (level == LEVELS)
        return (uint64_t)1 << TOTAL_BITS;
    for (int k = 0; k < run->network->mixtures; k++)
        sum += (uint64_t)logistic(run->network, run->scale[first + k], run->zero[first + k], level) *
               (uint32_t)run->weight[first + k];
    return sum;
}

/* -log2 of a probability in units of 2^-31, counted in 2^-16 bit. */
static int64_t find_cost(const Network *network, uint64_t probability) {
    const uint64_t least = 1 << (TOTAL_BITS - LONGEST_COST);
    int bits = 0;
    probability = probability > least ? probability : least;
    while (probability >> bits)
        bits++;
    uint64_t mantissa = probability - ((uint64_t)1 << (bits - 1));
    uint64_t entry = mantissa * 2 * (uint64_t)network->log2s >> bits;
    return ((int64_t)(TOTAL_BITS + 1 - bits) << COST_BITS) - network->log2[entry];
}

/* Find the intervals of a column's nibbles, left and right of the high one, then of the low one,
 * and what the sample costs under the mixture. */
void find_intervals(const Run *run, int column, int sample, int32_t ends[4], int64_t *cost) {
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
    *cost = find_cost(run->network, above - below);
}
