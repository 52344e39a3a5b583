/* What a kernel is: the few loops in which nearly all time is spent, for one kind of processor.
 *
 * All arithmetic is on integers, so all kernels give the same numbers. A layer's sums stay below
 * 2^24 (the loader has proved it), so 32 bits hold every partial sum of 16-bit products.
 * Everything comes in blocks of 16 lanes: 16 outputs of a layer, or 16 places of the mixture.
 */
#ifndef LMZIP_KERNEL_H
#define LMZIP_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum { LANES = 16 };

/* A layer's weights, for all of its taps. Outputs are filled up with zeros to whole blocks, inputs
 * to whole pairs. `weights` lie as [block][tap][pair][lane][2] for kernels that multiply pairs at
 * once (`interleaved`), as [block][tap][pair][2][lane] for others. Those of a 1x1 layer `by_pair` lie
 * as [pair][block][lane][2], and its rows are filled up with zeros to whole blocks. A sum is divided by 2^shift and
 * rounded half to even: half is 2^(shift - 1) - 1 and odd is 1, or both are 0 without a shift. */
typedef struct {
    int blocks, taps, pairs, by_pair;
    const int16_t *weights;
    const int32_t *shift, *half, *odd; /* [block][lane] */
} Layer;

/* What a layer reads, for n columns: rows of 16-bit numbers where they lie. Column i finds tap
 * taps[u] in row at[i * used + u]; the row `hidden` holds zeros, and taps that nobody sees are
 * passed over. The sums start from row pattern[place[i]] of `bases`: the bias and the mask weights
 * of the taps that are visible. Without patterns they all start from the first row. */
typedef struct {
    const int16_t *rows;
    size_t stride;
    uint32_t hidden;
    int used;
    const int32_t *taps;
    const uint32_t *at;
    const int32_t *bases, *pattern, *place;
} Inputs;

/* What becomes of the rounded results. `low` and `high` are what they are clipped to. */
typedef enum { SET_WIDE, ADD_TO_WIDE, SET_NARROW } Kind;

typedef struct {
    Kind kind;
    int32_t *wide;   /* rows of 32-bit numbers: SET_WIDE, ADD_TO_WIDE */
    int16_t *narrow; /* rows of 16-bit numbers: SET_NARROW */
    size_t stride;
    int32_t low, high;
} Target;

/* The K logistics of one column: inverse scales, where they stand, and weights. For deep samples
 * they stand at their means, and `limit` is how far from there the table surely ends. */
typedef struct {
    int count;
    const int32_t *scale, *zero, *weight, *limit;
    const int32_t *table; /* the logistic function, 2^14 entries */
} Logistics;

enum {
    TABLE_END = (1 << 14) - 1,
    SCALE_BITS = 9,
    MEAN_BITS = 6,
    HALF_LEVEL = 1 << (MEAN_BITS - 1),
    /* deep samples: boundaries and means are in units of 2^-12 of a level */
    RANGE_BITS = 20,
    BETWEEN_BITS = 8, /* of the place between two entries of the table */
    DEEP_SCALE_BITS = SCALE_BITS + 6 - BETWEEN_BITS,
    DEEP_HALF_LEVEL = 1 << (RANGE_BITS - 9)
};

typedef struct {
    const char *name;
    int interleaved, skips_zeros; /* skips_zeros: 1x1 layers after the first come by pair */
    /* Evaluate a layer for n columns. */
    void (*multiply)(const Layer *layer, const Inputs *inputs, const Target *target, int n);
    /* Set row at[i] of `rows` to round(stream / 2^bits), clipped to 0..high, for n columns. */
    void (*activate)(const int32_t *stream, int blocks, int n, int bits, int32_t high,
                     int16_t *rows, const uint32_t *at);
    /* Set cdf[j] to the mixture's cumulative function below level (j + 1) * apart. */
    void (*cumulate)(const Logistics *logistics, int apart, uint32_t cdf[LANES]);
    /* Set sums[j] to that of deep samples below a boundary. */
    void (*cumulate_deep)(const Logistics *logistics, const int32_t boundaries[LANES],
                          uint64_t sums[LANES]);
} Kernel;

extern const Kernel portable_kernel;
#if defined(__x86_64__) || defined(_M_X64)
#define LMZIP_X86 1
extern const Kernel avx2_kernel;
extern const Kernel avx512_kernel;
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#define LMZIP_ARM 1
extern const Kernel neon_kernel;
#endif

/* The kernels that this processor can run, best first; ends with the portable one and NULL. */
const Kernel *const *list_kernels(void);

#endif
