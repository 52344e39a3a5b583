/* A network that adapts (FORMAT.md, "Adaptation"): the changes of its outputs, and how it learns.
 *
 * Both products, that of changes and features and that of gradients and features, are layers to the
 * kernel. The first one's weights are the changes. The second one's are the gradients of a step, its
 * columns are the features, and its inputs the columns of the step.
 */
#include "adaptation.h"

#include "mixture.h"

#include <string.h>

enum {
    ONE = 1 << 12,
    SHIFT = 17,
    MOST = (1 << 12) - 1,
    WAIT = 64,
    FORGET = 2,
    LARGEST = (1 << 11) - 1,
    UNIT = 22369622,
    LOGIT_BITS = 7,
    SLOPE_BITS = 15,
    MEAN_UNIT_BITS = 16,
    DISTANCE_BITS = 13,
    LOG_SCALE_BITS = 18,
    COUPLING_BITS = 6
};

static const int RATES[] = {32, 24, 3, 32}; /* of logits, means, log-scales, coefficients */

/* Divide by 2^bits and round half up. */
static int32_t halve(int32_t x, int bits) { return (x + (1 << (bits - 1))) >> bits; }

/* Where the kernel finds the weights of an input: those of one block of outputs lie `apart` from those
 * of the next, and those of one output `step` from those of the next. */
typedef struct {
    int16_t *first;
    size_t apart, step;
} Weights;

static Weights find_weights(const Run *run, int16_t *weights, int pairs, int input) {
    const int interleaved = run->network->kernel->interleaved, odd = input % 2;
    Weights found = {weights + input / 2 * 2 * LANES + (interleaved ? odd : LANES * odd),
                     (size_t)pairs * 2 * LANES, interleaved ? 2 : 1};
    return found;
}

static int16_t *find_weight(const Weights *weights, int output) {
    return weights->first + output / LANES * weights->apart + output % LANES * weights->step;
}

static int count_features(const Run *run) { return run->network->first.blocks * LANES; }

static int count_outputs(const Run *run) { return run->network->out.blocks * LANES; }

/* A layer of 1x1 over some inputs, with the rows that it reads. */
static Layer make_layer(const Run *run, int inputs, const int16_t *weights, const int32_t *rounding) {
    const int outputs = count_outputs(run);
    Layer layer = {run->network->out.blocks, 1, (inputs + 1) / 2, SKIP_NOTHING, weights,
                   rounding, rounding + outputs, rounding + 2 * outputs};
    return layer;
}

static void multiply(const Run *run, const Layer *layer, const int32_t *bases, const int16_t *rows,
                     size_t stride, int n) {
    static const int32_t centre[1] = {0};
    const Inputs inputs = {rows, stride, UINT32_MAX, 1, centre, run->adaptation->each, bases, NULL, NULL};
    const Target target = {SET_WIDE, INT32_MIN, INT32_MAX, (size_t)count_outputs(run),
                           run->adaptation->sums, NULL, NULL, 0, 0};
    run->network->kernel->multiply(layer, &inputs, &target, n);
}

int make_adaptation(Run *run, Holdings *holdings, Adaptation *adaptation, size_t columns) {
    const Network *network = run->network;
    const size_t features = (size_t)count_features(run), outputs = (size_t)count_outputs(run);
    const size_t rows = columns > features ? columns : features;
    const size_t parts = columns * network->channels * network->mixtures;
    if (network->activation_max >= ONE || features > MOST_FEATURES ||
        network->channels > MOST_CHANNELS || run->deep || run->images != 1) {
        PyErr_SetString(PyExc_ValueError, "this network cannot adapt to these images");
        return 0;
    }
    run->adaptation = adaptation;
    if (!(adaptation->changes = allocate(holdings, features * outputs, 2)) ||
        !(adaptation->bases = allocate(holdings, outputs, 4)) ||
        !(adaptation->none = allocate(holdings, outputs, 4)) ||
        !(adaptation->rates = allocate(holdings, outputs, 4)) ||
        !(adaptation->correcting = allocate(holdings, 3 * outputs, 4)) ||
        !(adaptation->summing = allocate(holdings, 3 * outputs, 4)) ||
        !(adaptation->pulls = allocate(holdings, (features + 1) * outputs, 8)) ||
        !(adaptation->sums = allocate(holdings, rows * outputs, 4)) ||
        !(adaptation->gradients = allocate(holdings, TOGETHER * outputs, 2)) ||
        !(adaptation->features = allocate(holdings, TOGETHER * features, 2)) ||
        !(adaptation->each = allocate(holdings, rows, 4)) ||
        !(adaptation->prior = allocate(holdings, columns * network->mixtures, 4)) ||
        !(adaptation->parts = allocate(holdings, parts, sizeof(Part))))
        return 0;
    const int kinds[] = {1, network->channels, network->channels,
                         network->channels * (network->channels - 1) / 2};
    int output = 0;
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < kinds[kind] * network->mixtures; i++)
            adaptation->rates[output++] = RATES[kind];
    for (size_t o = 0; o < outputs; o++) {
        adaptation->correcting[o] = SHIFT;
        adaptation->correcting[outputs + o] = 1 << (SHIFT - 1);
    }
    for (size_t i = 0; i < rows; i++)
        adaptation->each[i] = (uint32_t)i;
    return 1;
}

/* Change the outputs of the columns at hand. */
void correct_outputs(Run *run) {
    const Adaptation *adaptation = run->adaptation;
    const int features = count_features(run);
    const Layer layer = make_layer(run, features, adaptation->changes, adaptation->correcting);
    multiply(run, &layer, adaptation->bases, run->active, (size_t)features, run->n);
    const size_t count = (size_t)run->n * count_outputs(run);
    for (size_t i = 0; i < count; i++)
        run->outputs[i] += adaptation->sums[i];
}

/* Keep the weights of a column before its first channel. */
void note_prior(Run *run, int column) {
    const int mixtures = run->network->mixtures;
    memcpy(run->adaptation->prior + (size_t)column * mixtures,
           run->weight + (size_t)column * run->room, (size_t)mixtures * 4);
}

static int32_t look_up(const Network *network, int64_t place, int32_t scale, int32_t zero) {
    return network->logistic[clip((int32_t)((place * scale - zero) >> SCALE_BITS), 0, TABLE_END)];
}

static Part *parts_of(const Run *run, int column, int channel) {
    const Network *network = run->network;
    return run->adaptation->parts +
           ((size_t)column * network->channels + channel) * network->mixtures;
}

/* Keep what the gradients need to know of a column's sample of the channel at hand. */
void note_channel(Run *run, int column, int sample) {
    const Network *network = run->network;
    const size_t first = (size_t)column * run->room;
    const int64_t level = (int64_t)sample << MEAN_BITS;
    Part *part = parts_of(run, column, run->channel);
    for (int k = 0; k < network->mixtures; k++, part++) {
        const int32_t scale = run->scale[first + k], zero = run->zero[first + k];
        const int32_t below = sample ? look_up(network, level - HALF_LEVEL, scale, zero) : 0;
        const int32_t above = sample < LEVELS - 1 ? look_up(network, level + HALF_LEVEL, scale, zero)
                                                  : 1 << CDF_BITS;
        const int32_t entry = clip((int32_t)((level * scale - zero) >> SCALE_BITS), 0, TABLE_END);
        part->slope = (below + above - (1 << CDF_BITS)) >> 1;
        part->scale = scale >> 1;
        part->beyond = halve((entry - (TABLE_END + 1) / 2) * part->slope - UNIT, DISTANCE_BITS);
    }
}

static void put_gradient(const Weights *target, int output, int32_t value) {
    *find_weight(target, output) = (int16_t)clip(value, -LARGEST, LARGEST);
}

/* Find the gradients of a column. */
static void find_gradients(Run *run, int column, const Weights *target) {
    const Network *network = run->network;
    const int mixtures = network->mixtures, channels = network->channels;
    const int32_t *outputs = run->outputs + (size_t)column * count_outputs(run);
    const int32_t *prior = run->adaptation->prior + (size_t)column * mixtures;
    const int32_t *posterior = run->weight + (size_t)column * run->room;
    const int32_t *levels = run->seen + (size_t)column * channels;
    const int first_log_scale = (1 + channels) * mixtures;
    const int first_coefficient = first_log_scale + channels * mixtures;
    for (int k = 0; k < mixtures; k++) {
        int32_t pulls[MOST_CHANNELS], means[MOST_CHANNELS];
        put_gradient(target, k, halve(posterior[k] - prior[k], LOGIT_BITS));
        for (int c = 0; c < run->coded; c++) {
            const Part *part = parts_of(run, column, c) + k;
            const int32_t share = halve(posterior[k] * part->slope, SLOPE_BITS);
            means[c] = pulls[c] = halve(share * part->scale, MEAN_UNIT_BITS);
            put_gradient(target, first_log_scale + c * mixtures + k,
                         halve(posterior[k] * part->beyond, LOG_SCALE_BITS));
        }
        for (int c = 1, output = first_coefficient + k; c < run->coded; c++)
            for (int e = 0; e < c; e++, output += mixtures) {
                const int32_t residual = levels[e] - outputs[(1 + e) * mixtures + k];
                means[e] -= halve(outputs[output] * pulls[c], COEFFICIENT_BITS);
                put_gradient(target, output, halve(pulls[c] * residual, COUPLING_BITS));
            }
        for (int c = 0; c < run->coded; c++)
            put_gradient(target, (1 + c) * mixtures + k, means[c]);
    }
}

/* Let some columns pull at the changes. */
static void pull(Run *run, int first, int count) {
    Adaptation *adaptation = run->adaptation;
    const int features = count_features(run), outputs = count_outputs(run);
    const int pairs = (count + 1) / 2;
    const size_t stride = 2 * (size_t)pairs;
    memset(adaptation->gradients, 0, stride * outputs * 2);
    for (int i = 0; i < count; i++) {
        const Weights target = find_weights(run, adaptation->gradients, pairs, i);
        find_gradients(run, first + i, &target);
        for (int o = 0; o < outputs; o++)
            adaptation->pulls[(size_t)features * outputs + o] += (int64_t)ONE * *find_weight(&target, o);
    }
    for (int f = 0; f < features; f++) {
        int16_t *row = adaptation->features + f * stride;
        const int16_t *seen = run->active + (size_t)first * features + f;
        for (int i = 0; i < count; i++)
            row[i] = seen[(size_t)i * features];
        if (count % 2)
            row[count] = 0;
    }
    const Layer layer = make_layer(run, count, adaptation->gradients, adaptation->summing);
    multiply(run, &layer, adaptation->none, adaptation->features, stride, features);
    const size_t all = (size_t)features * outputs;
    for (size_t j = 0; j < all; j++)
        adaptation->pulls[j] += adaptation->sums[j];
}

/* Move a change to where it is pulled, and forget a part of the pull. */
static int32_t move(int32_t change, int32_t rate, int64_t *pulls) {
    const int sign = (*pulls > 0) - (*pulls < 0);
    *pulls -= *pulls >> FORGET;
    return clip(change + rate * sign, -MOST, MOST);
}

static void move_changes(Run *run) {
    Adaptation *adaptation = run->adaptation;
    const int features = count_features(run), outputs = count_outputs(run);
    int64_t *pulls = adaptation->pulls;
    for (int f = 0; f < features; f++) {
        const Weights weights = find_weights(run, adaptation->changes, features / 2, f);
        for (int o = 0; o < outputs; o++, pulls++) {
            int16_t *change = find_weight(&weights, o);
            *change = (int16_t)move(*change, adaptation->rates[o], pulls);
        }
    }
    for (int o = 0; o < outputs; o++, pulls++)
        adaptation->bases[o] = ONE * move(adaptation->bases[o] / ONE, adaptation->rates[o], pulls);
}

/* Learn from the columns at hand, all channels of which are known. */
void learn_step(Run *run) {
    Adaptation *adaptation = run->adaptation;
    for (int first = 0; first < run->n; first += TOGETHER)
        pull(run, first, run->n - first < TOGETHER ? run->n - first : TOGETHER);
    adaptation->seen += run->n;
    if (adaptation->seen >= WAIT) {
        adaptation->seen = 0;
        move_changes(run);
    }
}
