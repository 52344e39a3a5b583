/* A network and its run along a schedule, as engine and mixture see them. */
#ifndef LMZIP_NETWORK_H
#define LMZIP_NETWORK_H

#include "kernel.h"

enum { NEIGHBOURS = 8, NIBBLES = 16, LEVELS = 256 };

/* What a model file holds, laid out for a kernel. Nothing here changes once it is made, so several
 * threads may read it. */
typedef struct {
    const Kernel *kernel;
    int channels, mixtures, depth;
    int stream_bits, predictor_shift;
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

    int n, start, stop, channel; /* the columns at hand */
    int32_t *place, *image;
    uint32_t *own, *each; /* the columns' rows in a ring, and 0, 1, 2, ... */
    int16_t *pixel_rows, **rings, *hidden, *active;
    int32_t *stream, *outputs;

    int32_t *weight, *scale, *zero; /* [column][k]: the logistics of the channel at hand */
    uint32_t *high_cdf;             /* [column][17] */
    int32_t *high, *seen;           /* [column]: the high nibble; [column][channel]: samples */
    int32_t *moved;                 /* [k]: room for one column */
    uint32_t *values;               /* [k] */
} Run;

int pixel_stride(const Network *network);

/* network.c */
void take_columns(Run *run, int start, int stop);
void write_pixels(Run *run, const uint8_t *samples);
void evaluate(Run *run);

/* mixture.c: frequencies are given less one, 16 for each column */
void begin_mixture(Run *run);
void find_high(Run *run, float *frequencies);
void find_low(Run *run, const int32_t *high, float *frequencies);
void observe(Run *run, int column, int sample);
void find_intervals(const Run *run, int column, int sample, int32_t ends[4], int64_t *cost);

#endif
