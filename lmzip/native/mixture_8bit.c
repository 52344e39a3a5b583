/* Nibbles of 8-bit samples (FORMAT.md, "Mixture"): the high one, then the low one within it. */
#include "adaptation.h"
#include "mixture.h"

enum { LONGEST_COST = 24 };

int weigh(Run *run, int column, int sample) {
    const Logistics all = logistics_of(run, column);
    uint32_t any = 0;
    run->network->kernel->weigh(&all, sample, run->weighed, find_parts(run, column));
    if (run->adaptation)
        note_error(run, column);
    for (int k = 0; k < all.count; k++) {
        run->values[k] = run->weighed[k];
        any |= run->weighed[k];
    }
    return any != 0;
}

void find_frequencies(Run *run, float *frequencies) {
    const Kernel *kernel = run->network->kernel;
    for (int i = 0; i < run->n; i++, frequencies += NIBBLES) {
        const Logistics all = logistics_of(run, i);
        uint32_t *cdf = run->high_cdf + (size_t)i * (NIBBLES + 1);
        const int high = run->symbol ? run->taken[i] : 0;
        if (run->symbol)
            kernel->find_low(&all, high, cdf + high, frequencies);
        else
            kernel->find_high(&all, cdf, frequencies);
    }
}

void find_intervals(const Run *run, int column, int sample, int32_t *ends, int64_t *cost) {
    const Kernel *kernel = run->network->kernel;
    const Logistics all = logistics_of(run, column);
    const int high = sample >> 4, low = sample & 15;
    const uint64_t start = kernel->cumulative(&all, high << 4);
    const uint64_t stop = kernel->cumulative(&all, (high + 1) << 4);
    const uint64_t below = kernel->cumulative(&all, sample);
    const uint64_t above = kernel->cumulative(&all, sample + 1);
    const int empty = start == stop;
    Ratio ratio = make_ratio(SHARED, empty ? NIBBLES : stop - start);
    ends[0] = (int32_t)(start * SHARED >> TOTAL_BITS) + high;
    ends[1] = (int32_t)(stop * SHARED >> TOTAL_BITS) + high + 1;
    ends[2] = (int32_t)share(&ratio, empty ? (uint64_t)low : below - start) + low;
    ends[3] = (int32_t)share(&ratio, empty ? (uint64_t)low + 1 : above - start) + low + 1;
    *cost = find_cost(run->network, above - below, TOTAL_BITS, LONGEST_COST);
}
