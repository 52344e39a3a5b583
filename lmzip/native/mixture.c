/* The logistics of the columns at hand, channel after channel: weights, means and scales. What they
 * make of a nibble is in mixture_8bit.c and mixture_deep.c. */
#include "mixture.h"

#include "adaptation.h"

enum { COST_BITS = 16, AGREEING = 3 };

/* Set weights in proportion to K values, not all zero, so that they add up to 2^15 exactly. */
static void normalise(const uint64_t *values, int mixtures, int32_t *weights) {
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

static const int32_t *outputs_of(const Run *run, int column) {
    return run->outputs + (size_t)column * run->network->out.blocks * LANES;
}

/* Set the logistics of a column to those of a channel. */
static void start_channel(const Run *run, int column, int channel) {
    const Network *network = run->network;
    const Source source = {outputs_of(run, column),
                           run->seen + (size_t)column * network->channels,
                           network->channels,
                           channel,
                           network->inverse_scale,
                           network->inverse_scales};
    if (run->deep) {
        place_deep(run, column, &source);
    } else {
        const Logistics all = logistics_of(run, column);
        network->kernel->place(&all, &source);
    }
}

/* Find out what the pixels around a column agree on. */
static void find_agreement(const Run *run, int column) {
    const Deep *deep = run->deep;
    const int32_t *around = deep->around + (size_t)run->place[column] * deep->around_used;
    int32_t *agreed = deep->agreed + (size_t)column * run->coded;
    int visible = 0, agree = deep->flatness > 0;
    for (int u = 0; agree && u < deep->around_used; u++) {
        if (around[u] == run->pixels)
            continue;
        size_t sample = ((size_t)around[u] * run->images + run->image[column]) * run->coded;
        for (int c = 0; c < run->coded; c++) {
            int32_t seen = get_sample(run, sample + c);
            agree &= !visible || agreed[c] == seen;
            agreed[c] = seen;
        }
        visible++;
    }
    for (int c = 0; c < run->coded && !(agree && visible >= AGREEING); c++)
        agreed[c] = -1;
}

/* Begin with the first channel of the columns at hand. */
void begin_mixture(Run *run) {
    const Network *network = run->network;
    const int mixtures = network->mixtures;
    run->channel = run->symbol = 0;
    for (int i = 0; i < run->n; i++) {
        const int32_t *logits = outputs_of(run, i);
        uint64_t *values = run->values;
        int32_t largest = logits[0];
        for (int k = 1; k < mixtures; k++)
            largest = logits[k] > largest ? logits[k] : largest;
        for (int k = 0; k < mixtures; k++)
            values[k] = (uint64_t)network->weight[clip(largest - logits[k], 0, network->weights - 1)];
        normalise(values, mixtures, run->weight + (size_t)i * run->room);
        if (run->adaptation)
            note_prior(run, i);
        start_channel(run, i, 0);
        if (run->deep)
            find_agreement(run, i);
    }
}

/* Take the nibbles of the columns at hand, and move on to the next ones of the same samples. */
void take_nibbles(Run *run, const int32_t *nibbles) {
    for (int i = 0; i < run->n; i++)
        run->taken[i] = run->symbol ? run->taken[i] << 4 | nibbles[i] : nibbles[i];
    run->symbol++;
}

/* Where a sample lies, in the units of a mean. */
static int32_t find_level(const Run *run, int sample) {
    if (!run->deep)
        return sample << MEAN_BITS;
    const int32_t *cell = find_cell(run->deep, sample);
    return ((cell[0] + cell[1]) >> 1) - DEEP_HALF_LEVEL;
}

/* Take in a column's sample of this channel, and move it to the next channel, if more follow. */
void observe(Run *run, int column, int sample, int more) {
    const Network *network = run->network;
    if (!more && !run->adaptation)
        return;
    if ((run->deep ? weigh_deep : weigh)(run, column, sample)) /* otherwise the weights stay as they are */
        normalise(run->values, network->mixtures, run->weight + (size_t)column * run->room);
    if (run->deep) { /* what is unlike its neighbours in one channel is so in the next ones */
        int32_t *agreed = run->deep->agreed + (size_t)column * run->coded;
        int known = clip(sample, 0, (1 << run->deep->depth) - 1);
        for (int c = run->coded - 1; agreed[run->channel] != known && c >= 0; c--)
            agreed[c] = -1;
    }
    run->seen[(size_t)column * network->channels + run->channel] = find_level(run, sample);
    if (more)
        start_channel(run, column, run->channel + 1);
}

/* The bits of a number below 2^64 that is not zero. */
static int count_bits(uint64_t number) {
    int bits = 1;
    for (int half = 32; half; half /= 2)
        if (number >> half) {
            number >>= half;
            bits += half;
        }
    return bits;
}

int64_t find_cost(const Network *network, uint64_t probability, int total_bits, int longest) {
    const uint64_t least = (uint64_t)1 << (total_bits - longest);
    probability = probability > least ? probability : least;
    const int bits = count_bits(probability);
    uint64_t mantissa = probability - ((uint64_t)1 << (bits - 1));
    uint64_t entry = mantissa * 2 * (uint64_t)network->log2s >> bits;
    return ((int64_t)(total_bits + 1 - bits) << COST_BITS) - network->log2[entry];
}
