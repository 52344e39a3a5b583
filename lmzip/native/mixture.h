/* What the mixtures of 8-bit and of deep samples share (FORMAT.md, "Mixture", "Deep samples"). */
#ifndef LMZIP_MIXTURE_H
#define LMZIP_MIXTURE_H

#include "network.h"

enum { RATIO_BITS = 39, DEEP_CDF_BITS = CDF_BITS + BETWEEN_BITS };

static inline int32_t clip(int32_t x, int32_t low, int32_t high) {
    return x < low ? low : x > high ? high : x;
}

static inline int32_t clip_mean(const Network *network, int32_t mean) {
    const int32_t unit = (int32_t)1 << network->fraction_bits;
    return clip(mean, MEAN_LOW * unit, MEAN_HIGH * unit);
}

/* Where the cell of a deep sample begins, and where it ends; those of damaged files may be too
 * large. */
static inline const int32_t *find_cell(const Deep *deep, int sample) {
    const int last = (1 << deep->depth) - 1;
    return deep->boundaries + (sample < last ? sample : last);
}

/* The logistics of a column. */
static inline Logistics logistics_of(const Run *run, int column) {
    const size_t first = (size_t)column * run->room;
    Logistics all = {run->network->mixtures, run->scale + first, run->zero + first,
                     run->weight + first, run->deep ? run->deep->limit + first : NULL,
                     run->network->logistic};
    return all;
}

/* floor(part * shared / total) for many parts from 0 to total, with one division. */
typedef struct {
    uint64_t shared, total, factor;
} Ratio;

static inline Ratio make_ratio(uint64_t shared, uint64_t total) {
    Ratio ratio = {shared, total, (shared << RATIO_BITS) / total};
    return ratio;
}

/* The factor is rounded down, by less than one, and parts are at most 2^39: so the estimate is too
 * small by less than one, and its integer part by one at most. Products stay below 2^63, since
 * shared is below 2^24 and a part is at most the total. */
static inline uint64_t share(const Ratio *ratio, uint64_t part) {
    uint64_t estimate = part * ratio->factor >> RATIO_BITS;
    return estimate + (part * ratio->shared - estimate * ratio->total >= ratio->total);
}

/* Set a column's logistics to those of a channel, for deep samples. */
void place_deep(const Run *run, int column, const Source *source);

/* -log2 of a probability in units of 2^-total_bits, counted in 2^-16 bit, at most `longest` bits. */
int64_t find_cost(const Network *network, uint64_t probability, int total_bits, int longest);

#endif
