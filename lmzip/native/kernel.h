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
#if defined(_MSC_VER)
#include <intrin.h>
#endif

enum { LANES = 16, NEIGHBOURS = 8 };

/* A layer's weights, for all of its taps. Outputs are filled up with zeros to whole blocks, inputs
 * to whole pairs. `weights` lie as [block][tap][pair][lane][2] for kernels that multiply pairs at
 * once (`interleaved`), as [block][tap][pair][2][lane] for others. Those of a 1x1 layer that skips pairs
 * lie as [pair][block][lane][2], and its rows are filled up with zeros to whole blocks. Those of a layer
 * that skips inputs lie as [tap][input][pair of blocks][quarter][block][4 lanes], where its number of
 * blocks is filled up to an even one: with the weights of another input in between, each half of a
 * pair's then is a block. A sum is divided by 2^shift and rounded half to even: half is
 * 2^(shift - 1) - 1 and odd is 1, or both are 0 without a shift. */
typedef enum { SKIP_NOTHING, SKIP_PAIRS, SKIP_INPUTS } Skipping;

enum { MOST_SKIPPED = 1024 }; /* taps times inputs of a layer that skips inputs */

typedef struct {
    int blocks, taps, pairs;
    Skipping skips;
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

/* What becomes of the rounded results, and what they are clipped to. They replace what is in `wide` or
 * in `narrow`, or are added to what is in `wide`. Those of a stream are kept in `wide`, and what the
 * next layer reads of them, round(x / 2^bits) clipped to 0..top, goes to row at[i] of `narrow`. */
typedef enum { SET_WIDE, ADD_WIDE, SET_STREAM, ADD_TO_STREAM, SET_NARROW } Kind;

typedef struct {
    Kind kind;
    int32_t low, high;
    size_t stride;
    int32_t *wide;   /* rows of 32-bit numbers: all but SET_NARROW */
    int16_t *narrow; /* rows of 16-bit numbers: all but SET_WIDE, ADD_WIDE */
    const uint32_t *at;
    int bits;
    int32_t top;
} Target;

/* The linear predictor of one column: weights [channel][input channel][neighbour] for inputs
 * [input channel][neighbour], whose sums are divided by 2^shift, and added to what is in the
 * middle. Means are clipped to low..high, coefficients to -largest..largest. */
typedef struct {
    const int32_t *weights;
    int channels, mixtures, shift;
    int32_t middle, low, high, largest;
} Predictor;

/* The K logistics of one column: inverse scales, where they stand, and weights, all filled up to
 * whole blocks with logistics that weigh nothing. For deep samples they stand at their means, and
 * `limit` is how far from there the table surely ends. */
typedef struct {
    int count;
    int32_t *scale, *zero, *weight;
    const int32_t *limit;
    const int32_t *table; /* the logistic function, 2^14 entries */
} Logistics;

/* What a column's logistics come from: the network's outputs for it, rows of K of them, and the
 * samples of the channels before, in units of a mean. */
typedef struct {
    const int32_t *outputs, *levels;
    int channels, channel;
    const int32_t *inverse_scale;
    int inverse_scales;
} Source;

/* What gradients need to know of the sample of a column's channel, rows of its logistics filled up to
 * whole blocks: the slope of the function there, half the inverse scale, and how far beyond the
 * logistic's width the sample lies (FORMAT.md, "Adaptation": t, s >> 1, halve(e t - 22369622, 13)). */
enum { SLOPE, SCALE, BEYOND, PARTS };

/* What a column's gradients come from: the network's outputs for it, the samples in units of a mean,
 * and of its logistics the weights before the first channel and after the last one, and the parts of
 * each coded channel. */
typedef struct {
    const int32_t *outputs, *levels;
    const int32_t *prior, *posterior; /* [room] */
    const int32_t *parts;             /* [channel][PARTS][room] */
    int channels, coded, mixtures, room;
} Evidence;

/* What a network that adapts has learnt. Outputs and features are filled up to whole blocks, and so are
 * the errors that come after and count as features here; the constant comes last. */
typedef struct {
    int blocks, features;
    const int32_t *rates; /* [output]: how far changes move */
    int32_t *changes;     /* [feature, constant][output] */
    int64_t *pulls;       /* [feature, constant][output] */
    int16_t *weights;     /* the changes for the features, as a layer's */
    int32_t *bases;       /* [output]: what the constant adds */
    /* room for some columns at once */
    int32_t *gradients; /* [column][output], and a block more */
    int16_t *woven;     /* the gradients as weights of a layer, whose inputs are the columns */
    int16_t *inputs;    /* [pair of columns][feature, constant][2] */
    int32_t *sums;      /* [feature, constant][output] */
} Learner;

enum {
    ONE = 1 << 12, /* the constant */
    MOST_CHANGE = (1 << 12) - 1,
    LARGEST_GRADIENT = (1 << 11) - 1,
    FORGET = 2,
    MOST_ADAPTIVE = 4 /* channels of a network that adapts */
};

enum {
    LEVELS = 256,
    MEAN_BITS = 6,
    MEAN_LOW = -4096,
    MEAN_HIGH = 20480,
    HALF_LEVEL = 1 << (MEAN_BITS - 1),
    COEFFICIENT_BITS = 10,
    TABLE_END = (1 << 14) - 1,
    SCALE_BITS = 9,
    WEIGHT_BITS = 15,
    CDF_BITS = 16,
    TOTAL_BITS = WEIGHT_BITS + CDF_BITS,
    SHARED = (1 << 24) - LANES, /* what is left once each of 16 symbols has one unit */
    /* deep samples: boundaries and means are in units of 2^-12 of a level */
    RANGE_BITS = 20,
    BETWEEN_BITS = 8, /* of the place between two entries of the table */
    DEEP_SCALE_BITS = SCALE_BITS + 6 - BETWEEN_BITS,
    DEEP_HALF_LEVEL = 1 << (RANGE_BITS - 9)
};

typedef struct {
    const char *name;
    int interleaved;
    Skipping skips; /* what layers after the first are laid out for: all, or with pairs the 1x1 */
    /* Evaluate a layer for n columns. */
    void (*multiply)(const Layer *layer, const Inputs *inputs, const Target *target, int n);
    /* Add the linear prediction to the means of a column's outputs, and clip what the mixture
     * multiplies. */
    void (*predict)(const Predictor *predictor, const int32_t *inputs, int32_t *outputs);
    /* Set scales and places of the logistics to those of a channel. */
    void (*place)(const Logistics *logistics, const Source *source);
    /* Set values[k] to how likely logistic k finds a sample, times its weight; and the parts that
     * its gradients will need, unless they are NULL. */
    void (*weigh)(const Logistics *logistics, int sample, uint32_t *values, int32_t *parts);
    /* The mixture's cumulative function below a level. */
    uint32_t (*cumulative)(const Logistics *logistics, int level);
    /* Find the frequencies, less one, of high nibbles, and the function at the ends of each. */
    void (*find_high)(const Logistics *logistics, uint32_t cdf[LANES + 1], float frequencies[LANES]);
    /* Find those of low nibbles, given the high one and the function at its ends. */
    void (*find_low)(const Logistics *logistics, int high, const uint32_t ends[2],
                     float frequencies[LANES]);
    /* Set sums[j] to that of deep samples below a boundary. */
    void (*cumulate_deep)(const Logistics *logistics, const int32_t boundaries[LANES],
                          uint64_t sums[LANES]);
    /* Find the gradients of a column's outputs. Up to a block behind them is overwritten. */
    void (*find_gradients)(const Evidence *evidence, int32_t *gradients);
    /* Let n columns, whose gradients are there and whose features are given, pull at the changes. */
    void (*pull)(const Learner *learner, const int16_t *features, int n);
    /* Move the changes to where they are pulled. */
    void (*move)(const Learner *learner);
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

/* How many of the bits of a number that is not zero are zeros before the first one. */
static inline int count_leading_zeros(uint32_t number) {
#if defined(_MSC_VER)
    unsigned long highest;
    _BitScanReverse(&highest, number);
    return 31 - (int)highest;
#else
    return __builtin_clz(number);
#endif
}

/* The kernels that this processor can run, best first; ends with the portable one and NULL. */
const Kernel *const *list_kernels(void);

#endif
