/* The network, for the columns at hand: layer by layer, neighbours read where they lie. */
#include "mixture.h"

#include <string.h>

enum { PIXEL_MAX = 255, COEFFICIENT_MAX = 4096, DEEP_INPUT_MAX = (1 << 14) - 1 };
static const int32_t MID_GREY = PIXEL_MAX << (MEAN_BITS - 1);
static const int32_t EXACT = 1 << 24;

static int32_t round_half(int32_t x, int shift) {
    return shift ? (x + (1 << (shift - 1)) - 1 + (x >> shift & 1)) >> shift : x;
}

/* Rows of pixels are filled up to whole pairs. */
int pixel_stride(const Network *network) { return 2 * ((network->channels + 1) / 2); }

/* Turn to the columns of places start..stop of all images. */
void take_columns(Run *run, int start, int stop) {
    int n = 0, first = 0;
    for (int g = 0; g < run->groups; first += run->group_sizes[g++])
        for (int place = start; place < stop; place++) {
            const uint32_t row = (uint32_t)(place % run->ring) * run->images + first;
            for (int i = 0; i < run->group_sizes[g]; i++, n++) {
                run->place[n] = place;
                run->image[n] = first + i;
                run->own[n] = row + i;
            }
        }
    run->start = start;
    run->stop = stop;
    run->n = n;
}

/* What the network sees of a sample. */
static int32_t find_input(const Run *run, int sample) {
    if (!run->deep)
        return 2 * sample - PIXEL_MAX;
    const int32_t *cell = find_cell(run->deep, sample);
    int32_t doubled = cell[0] + cell[1] - (1 << RANGE_BITS);
    return clip((doubled + (1 << (MEAN_BITS - 1))) >> MEAN_BITS, -DEEP_INPUT_MAX, DEEP_INPUT_MAX);
}

/* Take the samples of the columns at hand to where later columns will look for them. A single coded
 * channel is given to all of the network's. */
void write_pixels(Run *run) {
    const int channels = run->network->channels, stride = pixel_stride(run->network);
    for (int i = 0; i < run->n; i++) {
        size_t row = (size_t)run->place[i] * run->images + run->image[i];
        for (int c = 0; c < channels; c++) {
            int sample = get_sample(run, row * run->coded + (run->coded == channels ? c : 0));
            run->pixel_rows[row * stride + c] = (int16_t)find_input(run, sample);
        }
    }
}

/* Find the rows of the neighbours of the columns at hand, in a ring of some places. A ring holds
 * all places that are still seen, so a neighbour lies less than once around it back. */
static void locate(const Run *run, const View *view, int ring) {
    const uint32_t hidden = (uint32_t)ring * run->images;
    for (int i = 0; i < run->n; i++) {
        const int32_t *places = view->places + (size_t)run->place[i] * view->used;
        const int here = run->place[i] % ring;
        uint32_t *at = view->at + (size_t)i * view->used;
        for (int u = 0; u < view->used; u++) {
            int place = here - (run->place[i] - places[u]);
            place += place < 0 ? ring : 0;
            at[u] = places[u] == run->pixels ? hidden
                                             : (uint32_t)place * run->images + run->image[i];
        }
    }
}

static Inputs look_through(const Run *run, const View *view, const int32_t *bases,
                           const int16_t *rows, size_t stride, int ring) {
    Inputs inputs = {rows,     stride, (uint32_t)ring * run->images, view->used, view->taps,
                     view->at, bases,  view->pattern,                run->place};
    return inputs;
}

/* What a 1x1 layer reads: row i for column i, all of them visible. */
static Inputs look_at(const Run *run, const int32_t *bases, const int16_t *rows, size_t stride) {
    static const int32_t centre[1] = {0};
    Inputs inputs = {rows, stride, UINT32_MAX, 1, centre, run->each, bases, NULL, NULL};
    return inputs;
}

/* Add the linear prediction to the means, and clip what the mixture multiplies. */
static void predict(const Run *run) {
    const Network *network = run->network;
    const int channels = network->channels, mixtures = network->mixtures;
    const int stride = pixel_stride(network), taps = NEIGHBOURS * channels;
    const size_t outputs = (size_t)network->out.blocks * LANES;
    for (int i = 0; i < run->n; i++) {
        const uint32_t *at = run->first.at + (size_t)i * run->first.used;
        int set = run->sets[run->first.pattern[run->place[i]]];
        const int32_t *weight = network->predictor + (size_t)set * channels * taps;
        int32_t *kinds = run->outputs + i * outputs, *mean = kinds + mixtures;
        for (int c = 0; c < channels; c++, weight += taps) {
            int32_t sum = 0;
            for (int t = 0; t < NEIGHBOURS; t++) {
                if (run->predictor_taps[t] < 0)
                    continue;
                const int16_t *x = run->pixel_rows + (size_t)at[run->predictor_taps[t]] * stride;
                for (int e = 0; e < channels; e++)
                    sum += weight[NEIGHBOURS * e + t] * x[e];
            }
            int32_t linear = round_half(sum, network->predictor_shift) +
                             (MID_GREY << network->fraction_bits);
            for (int k = 0; k < mixtures; k++, mean++)
                *mean = clip_mean(network, *mean + linear);
        }
        int32_t *coefficient = mean + channels * mixtures; /* after the log-scales */
        for (int k = 0; k < channels * (channels - 1) / 2 * mixtures; k++)
            coefficient[k] = clip(coefficient[k], -COEFFICIENT_MAX, COEFFICIENT_MAX);
    }
}

/* Evaluate the network for the columns at hand: what it says of them is in run->outputs. */
void evaluate(Run *run) {
    const Network *network = run->network;
    const Kernel *kernel = network->kernel;
    const int n = run->n, limit = network->stream_max;
    const int blocks = network->first.blocks;
    const size_t width = (size_t)blocks * LANES;
    Target set = {SET_WIDE, run->stream, NULL, width, -limit, limit};
    Target add = {ADD_TO_WIDE, run->stream, NULL, width, -limit, limit};

    locate(run, &run->first, run->pixels);
    Inputs pixels = look_through(run, &run->first, run->first_bases, run->pixel_rows,
                                 pixel_stride(network), run->pixels);
    kernel->multiply(&network->first, &pixels, &set, n);

    for (int v = 0; v < run->view_count; v++)
        locate(run, &run->views[v], run->ring);
    for (int b = 0; b < network->depth; b++) {
        const size_t hidden = (size_t)network->convs[b].blocks * LANES;
        Target narrow = {SET_NARROW, NULL, run->hidden, hidden, 0, network->activation_max};
        kernel->activate(run->stream, blocks, n, network->stream_bits, network->activation_max,
                         run->rings[b], run->own);
        Inputs around = look_through(run, &run->views[run->view_of[b]], run->conv_bases[b],
                                     run->rings[b], width, run->ring);
        kernel->multiply(&network->convs[b], &around, &narrow, n);
        Inputs here = look_at(run, run->project_bases[b], run->hidden, hidden);
        kernel->multiply(&network->projects[b], &here, &add, n);
    }

    kernel->activate(run->stream, blocks, n, network->stream_bits, network->activation_max,
                     run->active, run->each);
    Inputs last = look_at(run, run->out_bases, run->active, width);
    Target out = {SET_WIDE,           run->outputs, NULL,
                  (size_t)network->out.blocks * LANES, -EXACT,       EXACT};
    kernel->multiply(&network->out, &last, &out, n);
    predict(run);
}
