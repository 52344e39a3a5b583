/* The portable kernel: plain loops over 16 lanes, which compilers turn into what they have. */
#include "kernel.h"

#include <string.h>

#define TARGET

#if defined(_MSC_VER)
#define LANE_OP static __forceinline
#else
#define LANE_OP static inline __attribute__((always_inline))
#endif

/* GCC vectorises loops that it has not unrolled before it gets to it. */
#if defined(__GNUC__) && !defined(__clang__)
#define EACH _Pragma("GCC unroll 1") for (int o = 0; o < LANES; o++)
#else
#define EACH for (int o = 0; o < LANES; o++)
#endif

typedef struct {
    uint32_t v[LANES]; /* unsigned: the mixture's sums reach 2^31 */
} lanes;

typedef struct {
    const int16_t *at;
} weights;

typedef struct {
    int16_t first, second;
} pair;

enum { INTERLEAVED = 0, GROUP = 2, TOGETHER = 1 };

LANE_OP lanes lanes_load(const int32_t *from) {
    lanes x;
    memcpy(x.v, from, sizeof x.v);
    return x;
}

LANE_OP void lanes_store(int32_t *to, lanes x) { memcpy(to, x.v, sizeof x.v); }

LANE_OP void lanes_narrow(int16_t *to, lanes x) { EACH to[o] = (int16_t)x.v[o]; }

LANE_OP lanes lanes_set(int32_t value) {
    lanes x;
    EACH x.v[o] = (uint32_t)value;
    return x;
}

LANE_OP lanes lanes_add(lanes x, lanes y) {
    EACH x.v[o] += y.v[o];
    return x;
}

LANE_OP lanes lanes_subtract(lanes x, lanes y) {
    EACH x.v[o] -= y.v[o];
    return x;
}

LANE_OP lanes lanes_multiply(lanes x, lanes y) {
    EACH x.v[o] *= y.v[o];
    return x;
}

LANE_OP lanes lanes_and(lanes x, lanes y) {
    EACH x.v[o] &= y.v[o];
    return x;
}

LANE_OP lanes lanes_down(lanes x, int bits) {
    EACH x.v[o] = (uint32_t)((int32_t)x.v[o] >> bits);
    return x;
}

LANE_OP lanes lanes_clip(lanes x, lanes low, lanes high) {
    EACH {
        int32_t value = (int32_t)x.v[o], least = (int32_t)low.v[o], most = (int32_t)high.v[o];
        value = value < least ? least : value;
        x.v[o] = (uint32_t)(value > most ? most : value);
    }
    return x;
}

LANE_OP lanes lanes_round(lanes x, lanes half, lanes odd, lanes shift) {
    EACH {
        int32_t value = (int32_t)x.v[o], down = (int32_t)shift.v[o];
        value += (int32_t)(half.v[o] + ((uint32_t)(value >> down) & odd.v[o]));
        x.v[o] = (uint32_t)(value >> down);
    }
    return x;
}

LANE_OP lanes lanes_look_up(const int32_t *table, lanes index) {
    EACH index.v[o] = (uint32_t)table[index.v[o]];
    return index;
}

/* What each lane has more than the one before it. */
LANE_OP lanes lanes_rises(lanes x) {
    lanes y;
    y.v[0] = x.v[0];
    for (int o = 1; o < LANES; o++)
        y.v[o] = x.v[o] - x.v[o - 1];
    return y;
}

LANE_OP void lanes_floats(float *to, lanes x) { EACH to[o] = (float)(int32_t)x.v[o]; }

LANE_OP weights lanes_weights(const int16_t *from) {
    weights w = {from};
    return w;
}

LANE_OP pair lanes_pair(const int16_t *from) {
    pair x = {from[0], from[1]};
    return x;
}

LANE_OP lanes lanes_dot(lanes sum, pair x, weights w) {
    EACH sum.v[o] += (uint32_t)(w.at[o] * x.first + w.at[LANES + o] * x.second);
    return sum;
}

#include "loops.h"
#include "mixture_loops.h"
#include "adaptation_loops.h"

const Kernel portable_kernel = {"portable", INTERLEAVED, SKIP_NOTHING, multiply, predict, place,
                                weigh, cumulative, find_high, find_low, cumulate_deep,
                                find_gradients, pull, move};
