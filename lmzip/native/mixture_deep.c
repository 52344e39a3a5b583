/* Nibbles of deep samples (FORMAT.md, "Deep samples"): each within the cell that the ones before it
 * leave, from the same function. */
#include "mixture.h"

enum { WHOLE_BITS = WEIGHT_BITS + DEEP_CDF_BITS, LONGEST_COST = 32, SHARPNESS_BITS = 4 };

static const uint64_t WHOLE = (uint64_t)1 << WHOLE_BITS;

/* At its limit, a logistic is as many entries from its mean as half of the table has. */
void place_deep(const Run *run, int column, const Source *source) {
    const Network *network = run->network;
    const Logistics all = logistics_of(run, column);
    const int mixtures = all.count, channel = source->channel;
    const int32_t half = (TABLE_END + 1) / 2 << (BETWEEN_BITS + DEEP_SCALE_BITS);
    const int32_t *means = source->outputs + mixtures;
    const int32_t *log_scales = means + (size_t)source->channels * mixtures;
    const int32_t *coefficients = log_scales + (size_t)source->channels * mixtures +
                                  (size_t)channel * (channel - 1) / 2 * mixtures;
    int32_t *limit = run->deep->limit + (size_t)column * run->room;
    for (int k = 0; k < mixtures; k++) {
        int32_t mean = means[channel * mixtures + k];
        for (int e = 0; e < channel; e++) {
            int64_t residual = source->levels[e] - means[e * mixtures + k];
            int64_t product = coefficients[e * mixtures + k] * residual;
            mean += (int32_t)((product + (1 << (COEFFICIENT_BITS - 1))) >> COEFFICIENT_BITS);
        }
        int32_t index = clip(log_scales[channel * mixtures + k], 0, source->inverse_scales - 1);
        int64_t sharper = source->inverse_scale[index] * run->deep->sharpness >> SHARPNESS_BITS;
        all.zero[k] = clip_mean(network, mean);
        all.scale[k] = sharper > 0 ? (int32_t)sharper : 1;
        limit[k] = half / all.scale[k] + 1;
    }
}

/* A logistic's cumulative function below a boundary that is neither the first nor the last, at most
 * 2^24. */
static uint32_t find_logistic(const Network *network, int64_t scale, int32_t mean,
                              int32_t boundary) {
    const int shift = 6 + SCALE_BITS - BETWEEN_BITS;
    const int64_t middle = (int64_t)(TABLE_END + 1) / 2 << BETWEEN_BITS;
    const int64_t last = (int64_t)TABLE_END << BETWEEN_BITS;
    int64_t entry = ((boundary - DEEP_HALF_LEVEL - mean) * scale >> shift) + middle;
    entry = entry < 0 ? 0 : entry > last ? last : entry;
    const int32_t *found = network->logistic + (entry >> BETWEEN_BITS);
    const int32_t between = (int32_t)entry & ((1 << BETWEEN_BITS) - 1);
    const int32_t rise = between ? found[1] - found[0] : 0; /* the last entry has no next one */
    return (uint32_t)((found[0] << BETWEEN_BITS) + rise * between);
}

int weigh_deep(Run *run, int column, int sample) {
    const Network *network = run->network;
    const Logistics all = logistics_of(run, column);
    const int last = (1 << run->deep->depth) - 1;
    const int32_t *cell = find_cell(run->deep, sample);
    uint64_t any = 0;
    for (int k = 0; k < all.count; k++) {
        const int32_t scale = all.scale[k], mean = all.zero[k];
        uint32_t below = sample > 0 ? find_logistic(network, scale, mean, cell[0]) : 0;
        uint32_t above = sample < last ? find_logistic(network, scale, mean, cell[1])
                                       : 1 << DEEP_CDF_BITS; /* the ends are open */
        run->values[k] = (uint64_t)(above - below) * (uint32_t)all.weight[k];
        any |= run->values[k];
    }
    return any != 0;
}

/* Give a part of the probability to what the pixels around agree on, if they do. */
static uint64_t flatten(const Run *run, int column, int sample, uint64_t sum) {
    const uint64_t flatness = (uint64_t)run->deep->flatness;
    const int32_t agreed = run->deep->agreed[(size_t)column * run->coded + run->channel];
    if (agreed < 0)
        return sum;
    return sum - (sum * flatness >> 16) + (sample > agreed ? flatness << (WHOLE_BITS - 16) : 0);
}

/* Set sums to the mixture's function below some samples, at most 16. */
static void cumulate(const Run *run, int column, const int32_t *samples, int count, uint64_t *sums) {
    const Network *network = run->network;
    const Logistics all = logistics_of(run, column);
    const int32_t beyond = 1 << run->deep->depth;
    int32_t boundaries[LANES] = {0};
    uint64_t found[LANES];
    for (int j = 0; j < count; j++)
        boundaries[j] = run->deep->boundaries[samples[j] < beyond ? samples[j] : beyond];
    network->kernel->cumulate_deep(&all, boundaries, found);
    for (int j = 0; j < count; j++)
        sums[j] = samples[j] == 0        ? 0 /* the ends are open */
                  : samples[j] >= beyond ? WHOLE
                                         : flatten(run, column, samples[j], found[j]);
}

/* How many bits of a sample follow a nibble. */
static int bits_after(const Run *run, int symbol) { return 4 * (run->symbols - 1 - symbol); }

void find_deep_frequencies(Run *run, float *frequencies) {
    const int bits = bits_after(run, run->symbol);
    for (int i = 0; i < run->n; i++, frequencies += NIBBLES) {
        uint64_t *ends = run->deep->ends + (size_t)i * (NIBBLES + 1);
        const int taken = run->symbol ? run->taken[i] : 0;
        if (run->symbol) {
            uint64_t stop = ends[(taken & 15) + 1];
            ends[0] = ends[taken & 15];
            ends[NIBBLES] = stop;
        } else {
            ends[0] = 0;
            ends[NIBBLES] = WHOLE;
        }
        const uint64_t start = ends[0], total = ends[NIBBLES] - start;
        int32_t samples[NIBBLES];
        for (int j = 0; j < NIBBLES; j++)
            samples[j] = (taken * NIBBLES + 1 + j) << bits;
        cumulate(run, i, samples, NIBBLES - 1, ends + 1);
        Ratio ratio = make_ratio(SHARED, total ? total : NIBBLES);
        uint64_t before = 0;
        for (int j = 1; j <= NIBBLES; j++) { /* evenly where the mixture is empty */
            uint64_t end = share(&ratio, total ? ends[j] - start : (uint64_t)j);
            frequencies[j - 1] = (float)(int32_t)(end - before);
            before = end;
        }
    }
}

void find_deep_intervals(const Run *run, int column, int sample, int32_t *ends, int64_t *cost) {
    int32_t samples[2 * MOST_SYMBOLS];
    uint64_t sums[2 * MOST_SYMBOLS], start = 0, stop = WHOLE;
    for (int i = 0; i < 2 * run->symbols; i++) {
        const int bits = bits_after(run, i / 2);
        samples[i] = ((sample >> bits) + i % 2) << bits;
    }
    cumulate(run, column, samples, 2 * run->symbols, sums);
    for (int symbol = 0; symbol < run->symbols; symbol++) {
        const int nibble = sample >> bits_after(run, symbol) & 15, empty = start == stop;
        Ratio ratio = make_ratio(SHARED, empty ? NIBBLES : stop - start);
        for (int side = 0; side < 2; side++) {
            uint64_t part = empty ? (uint64_t)(nibble + side) : sums[2 * symbol + side] - start;
            ends[2 * symbol + side] = (int32_t)share(&ratio, part) + nibble + side;
        }
        start = sums[2 * symbol];
        stop = sums[2 * symbol + 1];
    }
    *cost = find_cost(run->network, stop - start, WHOLE_BITS, LONGEST_COST);
}
