/* A network and its run along a schedule, as engine and mixture see them. */
#ifndef LMZIP_NETWORK_H
#define LMZIP_NETWORK_H

#include "kernel.h"

enum { NIBBLES = 16, MOST_SYMBOLS = 4 };

/* What a model file holds, laid out for a kernel. Nothing here changes once it is made, so several
 * threads may read it. */
typedef struct {
    const Kernel *kernel;
    int channels, mixtures, depth;
    int stream_bits, predictor_shift;
    int fraction_bits; /* of inputs and means: 0, or 6 in a deep network */
    int32_t activation_max, stream_max;
    Layer first, out;
    Layer *convs, *projects; /* [depth] */
    const int32_t *predictor; /* [set of visible neighbours][channel][input channel][neighbour] */
    const int32_t *logistic, *inverse_scale, *weight, *log2;
    int inverse_scales, weights, log2s; /* the sizes of these tables */
} Network;

/* Where the places of a sequence find the taps of a layer, and where the columns at hand do. */
typedef struct {
    int used;
    const int32_t *taps;    /* [used]: which of the layer's taps those are */
    const int32_t *places;  /* [place][used]: the neighbour's place, or the number of places */
    const int32_t *pattern; /* [place]: which taps are visible */
    uint32_t *at;           /* [column][used]: the neighbour's row */
} View;

/* What deep samples need, those of more than 8 bits (FORMAT.md, "Deep samples"). */
typedef struct {
    int depth;
    int64_t sharpness, flatness;
    const int32_t *boundaries; /* [2^depth + 1]: where the cells of the samples begin */
    const int32_t *around;     /* [place][around_used]: the pixels around, as in a view */
    int around_used;
    uint64_t *ends;  /* [column][17]: the mixture's function at the ends of the nibble at hand */
    int32_t *agreed; /* [column][coded]: what the pixels around agree on, or -1 */
    int32_t *limit;  /* [column][room]: how far from a mean the table of the function ends */
} Deep;

typedef struct Adaptation Adaptation; /* adaptation.h */

/* One evaluation of a network for some images along a sequence of places. A column is one place of
 * one image. The columns at hand lie group by group; in a group place by place, and of each place
 * image by image: that is how each group's stream codes them. */
typedef struct {
    const Network *network;
    int pixels, images, groups, coded, ring; /* ring: the places that features are kept of */
    const int32_t *group_sizes;
    View first;
    View *views;             /* of the convolutions; several may share one */
    const int32_t *view_of;  /* [depth] */
    const int32_t *first_bases, **conv_bases, **project_bases, *out_bases;
    const int32_t *sets;           /* [pattern of the first layer]: which predictor */
    const int32_t *predictor_taps; /* [8]: their places among the first layer's used taps, or -1 */
    int view_count;

    int symbols;   /* nibbles of a sample */
    Deep *deep;    /* or NULL: samples are of 8 bits */
    Adaptation *adaptation; /* or NULL: the network stays as it is */
    void *samples; /* [place][image][coded], of 8 bits, or of 16 if they are deep */

    int n, start, stop; /* the columns at hand */
    int channel, symbol;
    int32_t *place, *image;
    uint32_t *own, *each; /* the columns' rows in a ring, and 0, 1, 2, ... */
    int16_t *pixel_rows, **rings, *hidden, *active;
    int32_t *stream, *outputs;
    int32_t *around; /* [channel][neighbour]: what the predictor sees of a column */

    int room;                       /* for a column's logistics: whole blocks of them */
    int32_t *weight, *scale, *zero; /* [column][room]: the logistics of the channel at hand */
    uint32_t *high_cdf;             /* [column][17] */
    int32_t *taken, *seen; /* [column]: the nibbles so far; [column][channel]: samples */
    uint32_t *weighed;     /* [room] */
    uint64_t *values;      /* [k] */
} Run;

int pixel_stride(const Network *network);

static inline int get_sample(const Run *run, size_t index) {
    return run->deep ? ((const uint16_t *)run->samples)[index]
                     : ((const uint8_t *)run->samples)[index];
}

/* network.c */
void take_columns(Run *run, int start, int stop);
void write_pixels(Run *run);
void evaluate(Run *run);

/* mixture.c: frequencies are given less one, 16 for each column */
void begin_mixture(Run *run);
void take_nibbles(Run *run, const int32_t *nibbles);
void observe(Run *run, int column, int sample, int more);

/* mixture_8bit.c, mixture_deep.c: how likely each of a column's logistics finds a sample, times its
 * weight, in run->values, and whether any does; the frequencies of the nibble at hand; and the
 * intervals of all nibbles of a sample, left and right of each, and what it costs under the mixture */
int weigh(Run *run, int column, int sample);
int weigh_deep(Run *run, int column, int sample);
void find_frequencies(Run *run, float *frequencies);
void find_deep_frequencies(Run *run, float *frequencies);
void find_intervals(const Run *run, int column, int sample, int32_t *ends, int64_t *cost);
void find_deep_intervals(const Run *run, int column, int sample, int32_t *ends, int64_t *cost);

#endif
