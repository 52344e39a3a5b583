/* A network that adapts (FORMAT.md, "Adaptation"): the changes of its outputs, and when it learns. The
 * loops are the kernel's, in adaptation_loops.h.
 */
#include "adaptation.h"

#include <string.h>

enum { SHIFT = 17, WAIT = 64, KINDS = 4, ERROR_BITS = 20 };

static int count_features(const Run *run) { return run->network->first.blocks * LANES; }

/* Errors are filled up to whole blocks too. */
static int count_inputs(const Run *run, const Adaptation *adaptation) {
    const int errors = adaptation->around * run->network->channels;
    return count_features(run) + (errors + LANES - 1) / LANES * LANES;
}

static int count_outputs(const Run *run) { return run->network->out.blocks * LANES; }

/* How many numbers are kept of the parts of a channel. */
static size_t count_parts(const Run *run) { return (size_t)PARTS * run->room; }

static int make_learner(const Run *run, Holdings *holdings, Learner *learner, size_t features,
                        const int *rate_of) {
    const Network *network = run->network;
    const size_t outputs = (size_t)count_outputs(run), all = (features + 1) * outputs;
    learner->blocks = network->out.blocks;
    learner->features = (int)features;
    int32_t *rates = allocate(holdings, outputs, 4);
    learner->rates = rates;
    if (!rates || !(learner->changes = allocate(holdings, all, 4)) ||
        !(learner->pulls = allocate(holdings, all, 8)) ||
        !(learner->weights = allocate(holdings, features * outputs, 2)) ||
        !(learner->bases = allocate(holdings, outputs, 4)) ||
        !(learner->gradients = allocate(holdings, LESSON * outputs + LANES, 4)) ||
        !(learner->woven = allocate(holdings, LESSON * outputs, 2)) ||
        !(learner->inputs = allocate(holdings, LESSON * (features + 1), 2)) ||
        !(learner->sums = allocate(holdings, all, 4)))
        return 0;
    const int kinds[KINDS] = {1, network->channels, network->channels,
                              network->channels * (network->channels - 1) / 2};
    for (int kind = 0, output = 0; kind < KINDS; kind++)
        for (int i = 0; i < kinds[kind] * network->mixtures; i++)
            rates[output++] = rate_of[kind];
    return 1;
}

/* Read a manner: its rates, and the taps among so many that see errors. */
static int read_manner(const Run *run, Holdings *holdings, Adaptation *adaptation, PyObject *manner,
                       int *rates) {
    PyObject *given, *taps;
    if (!PyArg_ParseTuple(manner, "OiO", &given, &adaptation->around, &taps) ||
        !read_integers(given, rates, KINDS))
        return 0;
    const int around = adaptation->around;
    int good = 0 <= around && around <= MOST_AROUND;
    if (good && !(adaptation->taps = borrow(holdings, taps, (size_t)around + 1, 4, 0)))
        return 0;
    for (int t = 0; good && t < around; t++)
        good = -1 <= adaptation->taps[t] && adaptation->taps[t] < run->first.used;
    if (!good)
        PyErr_SetString(PyExc_ValueError, "errors are seen by taps of the first layer");
    return good;
}

int make_adaptation(Run *run, Holdings *holdings, Adaptation *adaptation, size_t columns,
                    PyObject *manner) {
    const Network *network = run->network;
    const size_t outputs = (size_t)count_outputs(run);
    int rates[KINDS];
    if (network->activation_max >= ONE || count_features(run) > MOST_FEATURES ||
        network->channels > MOST_ADAPTIVE || run->deep || run->images != 1) {
        PyErr_SetString(PyExc_ValueError, "this network cannot adapt to these images");
        return 0;
    }
    if (!read_manner(run, holdings, adaptation, manner, rates))
        return 0;
    run->adaptation = adaptation;
    const size_t inputs = (size_t)count_inputs(run, adaptation), pixels = (size_t)run->pixels;
    if (!make_learner(run, holdings, &adaptation->learner, inputs, rates) ||
        !(adaptation->errors = allocate(holdings, (pixels + 1) * network->channels, 2)) ||
        !(adaptation->inputs = allocate(holdings, columns * inputs, 2)) ||
        !(adaptation->correcting = allocate(holdings, 3 * outputs, 4)) ||
        !(adaptation->prior = allocate(holdings, columns * run->room, 4)) ||
        !(adaptation->parts = allocate(holdings, columns * network->channels * count_parts(run), 4)))
        return 0;
    for (size_t o = 0; o < outputs; o++) { /* halves are rounded up */
        adaptation->correcting[o] = SHIFT;
        adaptation->correcting[outputs + o] = 1 << (SHIFT - 1);
    }
    return 1;
}

/* Gather the features of the columns at hand, and the errors around them. */
static void gather_inputs(const Run *run) {
    const Adaptation *adaptation = run->adaptation;
    const size_t features = (size_t)count_features(run), channels = (size_t)run->network->channels;
    for (int i = 0; i < run->n; i++) {
        const uint32_t *at = run->first.at + (size_t)i * run->first.used;
        int16_t *to = adaptation->inputs + (size_t)i * adaptation->learner.features;
        memcpy(to, run->active + i * features, features * sizeof *to);
        to += features;
        for (int t = 0; t < adaptation->around; t++, to += channels) {
            const int tap = adaptation->taps[t];
            const size_t place = tap < 0 ? (size_t)run->pixels : at[tap];
            memcpy(to, adaptation->errors + place * channels, channels * sizeof *to);
        }
    }
}

/* Change the outputs of the columns at hand: the changes are a layer of 1x1 beside the last one. */
void correct_outputs(Run *run) {
    static const int32_t centre[1] = {0};
    const Learner *learner = &run->adaptation->learner;
    const int outputs = count_outputs(run);
    const int32_t *rounding = run->adaptation->correcting;
    const Layer layer = {learner->blocks, 1, learner->features / 2, SKIP_NOTHING, learner->weights,
                         rounding, rounding + outputs, rounding + 2 * outputs};
    const Inputs inputs = {run->adaptation->inputs, (size_t)learner->features, UINT32_MAX, 1, centre,
                           run->each, learner->bases, NULL, NULL};
    gather_inputs(run);
    const Target target = {ADD_WIDE, INT32_MIN, INT32_MAX, (size_t)outputs, run->outputs,
                           NULL, NULL, 0, 0};
    run->network->kernel->multiply(&layer, &inputs, &target, run->n);
}

/* Keep the weights of a column before its first channel. */
void note_prior(Run *run, int column) {
    const size_t first = (size_t)column * run->room;
    memcpy(run->adaptation->prior + first, run->weight + first, (size_t)run->room * 4);
}

static int32_t *parts_of(const Run *run, int column) {
    return run->adaptation->parts + (size_t)column * run->network->channels * count_parts(run);
}

int32_t *find_parts(const Run *run, int column) {
    return run->adaptation ? parts_of(run, column) + run->channel * count_parts(run) : NULL;
}

void note_error(Run *run, int column) {
    const int channels = run->network->channels, mixtures = run->network->mixtures;
    const int32_t *slopes = find_parts(run, column) + SLOPE * run->room;
    const int32_t *weights = run->weight + (size_t)column * run->room;
    int32_t sum = 1 << (ERROR_BITS - 1); /* weights add up to 2^15, slopes are at most 2^15 */
    for (int k = 0; k < mixtures; k++)
        sum += weights[k] * slopes[k];
    const size_t place = (size_t)run->place[column] * channels + run->channel;
    run->adaptation->errors[place] = (int16_t)(sum >> ERROR_BITS);
}

/* Learn from some columns. */
static void learn(const Run *run, int first, int count) {
    const Network *network = run->network;
    const Learner *learner = &run->adaptation->learner;
    const size_t outputs = (size_t)count_outputs(run);
    for (int i = 0; i < count; i++) {
        const size_t column = (size_t)first + i;
        const Evidence evidence = {run->outputs + column * outputs,
                                   run->seen + column * network->channels,
                                   run->adaptation->prior + column * run->room,
                                   run->weight + column * run->room,
                                   parts_of(run, first + i),
                                   network->channels,
                                   run->coded,
                                   network->mixtures,
                                   run->room};
        network->kernel->find_gradients(&evidence, learner->gradients + i * outputs);
    }
    network->kernel->pull(learner, run->adaptation->inputs + (size_t)first * learner->features, count);
}

/* Learn from the columns at hand, all channels of which are known. */
void learn_step(Run *run) {
    Adaptation *adaptation = run->adaptation;
    for (int first = 0; first < run->n; first += LESSON)
        learn(run, first, run->n - first < LESSON ? run->n - first : LESSON);
    adaptation->seen += run->n;
    if (adaptation->seen >= WAIT) {
        adaptation->seen = 0;
        run->network->kernel->move(&adaptation->learner);
    }
}
