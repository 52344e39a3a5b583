/* The network, for the columns at hand: layer by layer, neighbours read where they lie. */
#include "adaptation.h"
#include "mixture.h"

#include <string.h>

enum { PIXEL_MAX = 255, COEFFICIENT_MAX = 4096, DEEP_INPUT_MAX = (1 << 14) - 1 };
static const int32_t MID_GREY = PIXEL_MAX << (MEAN_BITS - 1);
static const int32_t EXACT = 1 << 24;

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
    const uint32_t images = (uint32_t)run->images, hidden = (uint32_t)ring * images;
    const int whole = ring == run->pixels;
    uint32_t *at = view->at;
    for (int i = 0; i < run->n; i++, at += view->used) {
        const int32_t place = run->place[i];
        const int32_t *places = view->places + (size_t)place * view->used;
        const uint32_t own = whole ? (uint32_t)place * images + run->image[i] : run->own[i];
        for (int u = 0; u < view->used; u++) {
            const uint32_t back = (uint32_t)(place - places[u]) * images;
            const uint32_t row = own - back + (own < back ? hidden : 0);
            at[u] = places[u] == run->pixels ? hidden : row;
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

/* Add the linear predictions to the means. */
static void predict(const Run *run) {
    const Network *network = run->network;
    const int channels = network->channels, stride = pixel_stride(network);
    const size_t each = (size_t)NEIGHBOURS * channels * channels;
    Predictor predictor = {NULL,
                           channels,
                           network->mixtures,
                           network->predictor_shift,
                           MID_GREY << network->fraction_bits,
                           MEAN_LOW * (1 << network->fraction_bits),
                           MEAN_HIGH * (1 << network->fraction_bits),
                           COEFFICIENT_MAX};
    for (int i = 0; i < run->n; i++) {
        const uint32_t *at = run->first.at + (size_t)i * run->first.used;
        for (int t = 0; t < NEIGHBOURS; t++) {
            const int tap = run->predictor_taps[t];
            const int16_t *x = run->pixel_rows + (size_t)(tap < 0 ? 0 : at[tap]) * stride;
            for (int e = 0; e < channels; e++)
                run->around[NEIGHBOURS * e + t] = tap < 0 ? 0 : x[e];
        }
        predictor.weights = network->predictor + run->sets[run->first.pattern[run->place[i]]] * each;
        network->kernel->predict(&predictor, run->around,
                                 run->outputs + (size_t)i * network->out.blocks * LANES);
    }
}

/* Where the stream of the columns at hand goes after a number of blocks: to the ring of the next
 * block, or to the last layer. */
static Target reach_block(const Run *run, Kind kind, int block) {
    const Network *network = run->network;
    const int more = block < network->depth;
    Target target = {kind,
                     -network->stream_max,
                     network->stream_max,
                     (size_t)network->first.blocks * LANES,
                     run->stream,
                     more ? run->rings[block] : run->active,
                     more ? run->own : run->each,
                     network->stream_bits,
                     network->activation_max};
    return target;
}

/* Evaluate the network for the columns at hand: what it says of them is in run->outputs. */
void evaluate(Run *run) {
    const Network *network = run->network;
    const Kernel *kernel = network->kernel;
    const int n = run->n;
    const size_t width = (size_t)network->first.blocks * LANES;

    locate(run, &run->first, run->pixels);
    for (int v = 0; v < run->view_count; v++)
        locate(run, &run->views[v], run->ring);

    Inputs pixels = look_through(run, &run->first, run->first_bases, run->pixel_rows,
                                 pixel_stride(network), run->pixels);
    Target stream = reach_block(run, SET_STREAM, 0);
    kernel->multiply(&network->first, &pixels, &stream, n);
    for (int b = 0; b < network->depth; b++) {
        const size_t hidden = (size_t)network->convs[b].blocks * LANES;
        Target narrow = {SET_NARROW, 0, network->activation_max, hidden, NULL, run->hidden, NULL, 0, 0};
        Inputs around = look_through(run, &run->views[run->view_of[b]], run->conv_bases[b],
                                     run->rings[b], width, run->ring);
        kernel->multiply(&network->convs[b], &around, &narrow, n);
        Inputs here = look_at(run, run->project_bases[b], run->hidden, hidden);
        stream = reach_block(run, ADD_TO_STREAM, b + 1);
        kernel->multiply(&network->projects[b], &here, &stream, n);
    }
    Inputs last = look_at(run, run->out_bases, run->active, width);
    Target out = {SET_WIDE, -EXACT, EXACT, (size_t)network->out.blocks * LANES, run->outputs, NULL,
                  NULL,     0,      0};
    kernel->multiply(&network->out, &last, &out, n);
    if (run->adaptation)
        correct_outputs(run);
    predict(run);
}
