/* The kernel for arm64: 16 lanes are four registers, smlal multiplies and adds up. */
#include "kernel.h"

#ifdef LMZIP_ARM
#include <arm_neon.h>

#define TARGET

#if defined(_MSC_VER)
#define LANE_OP static __forceinline
#else
#define LANE_OP static inline __attribute__((always_inline))
#endif
#define EACH for (int q = 0; q < 4; q++)

typedef int32x4x4_t lanes;
typedef int16x8x4_t weights; /* of the first input for 16 outputs, then of the second */

typedef struct {
    int16_t v[2];
} pair;

enum { INTERLEAVED = 0, GROUP = 4, TOGETHER = 1 };

LANE_OP lanes lanes_load(const int32_t *from) {
    lanes x;
    EACH x.val[q] = vld1q_s32(from + 4 * q);
    return x;
}

LANE_OP void lanes_store(int32_t *to, lanes x) { EACH vst1q_s32(to + 4 * q, x.val[q]); }

LANE_OP void lanes_narrow(int16_t *to, lanes x) { EACH vst1_s16(to + 4 * q, vmovn_s32(x.val[q])); }

LANE_OP lanes lanes_set(int32_t value) {
    lanes x;
    EACH x.val[q] = vdupq_n_s32(value);
    return x;
}

LANE_OP lanes lanes_add(lanes x, lanes y) {
    EACH x.val[q] = vaddq_s32(x.val[q], y.val[q]);
    return x;
}

LANE_OP lanes lanes_subtract(lanes x, lanes y) {
    EACH x.val[q] = vsubq_s32(x.val[q], y.val[q]);
    return x;
}

LANE_OP lanes lanes_multiply(lanes x, lanes y) {
    EACH x.val[q] = vmulq_s32(x.val[q], y.val[q]);
    return x;
}

LANE_OP lanes lanes_and(lanes x, lanes y) {
    EACH x.val[q] = vandq_s32(x.val[q], y.val[q]);
    return x;
}

LANE_OP lanes lanes_down(lanes x, int bits) {
    EACH x.val[q] = vshlq_s32(x.val[q], vdupq_n_s32(-bits));
    return x;
}

LANE_OP lanes lanes_clip(lanes x, lanes low, lanes high) {
    EACH x.val[q] = vminq_s32(vmaxq_s32(x.val[q], low.val[q]), high.val[q]);
    return x;
}

LANE_OP lanes lanes_round(lanes x, lanes half, lanes odd, lanes shift) {
    EACH {
        int32x4_t down = vnegq_s32(shift.val[q]); /* a shift to the left by a negative number */
        int32x4_t tie = vandq_s32(vshlq_s32(x.val[q], down), odd.val[q]);
        x.val[q] = vshlq_s32(vaddq_s32(vaddq_s32(x.val[q], half.val[q]), tie), down);
    }
    return x;
}

LANE_OP lanes lanes_look_up(const int32_t *table, lanes index) {
    int32_t at[LANES];
    lanes_store(at, index);
    for (int o = 0; o < LANES; o++)
        at[o] = table[at[o]];
    return lanes_load(at);
}

/* What each lane has more than the one before it. */
LANE_OP lanes lanes_rises(lanes x) {
    lanes y;
    EACH y.val[q] = vsubq_s32(
        x.val[q], vextq_s32(q ? x.val[q - 1] : vdupq_n_s32(0), x.val[q], 3));
    return y;
}

LANE_OP void lanes_floats(float *to, lanes x) { EACH vst1q_f32(to + 4 * q, vcvtq_f32_s32(x.val[q])); }

LANE_OP weights lanes_weights(const int16_t *from) {
    weights w;
    EACH w.val[q] = vld1q_s16(from + 8 * q);
    return w;
}

LANE_OP pair lanes_pair(const int16_t *from) {
    pair x = {{from[0], from[1]}};
    return x;
}

LANE_OP lanes lanes_dot(lanes sum, pair x, weights w) {
    for (int i = 0; i < 2; i++) {
        sum.val[0] = vmlal_n_s16(sum.val[0], vget_low_s16(w.val[2 * i]), x.v[i]);
        sum.val[1] = vmlal_high_n_s16(sum.val[1], w.val[2 * i], x.v[i]);
        sum.val[2] = vmlal_n_s16(sum.val[2], vget_low_s16(w.val[2 * i + 1]), x.v[i]);
        sum.val[3] = vmlal_high_n_s16(sum.val[3], w.val[2 * i + 1], x.v[i]);
    }
    return sum;
}

#include "loops.h"
#include "mixture_loops.h"
#include "adaptation_loops.h"

const Kernel neon_kernel = {"neon", INTERLEAVED, SKIP_NOTHING, multiply, predict, place,
                            weigh, cumulative, find_high, find_low, cumulate_deep,
                            find_gradients, pull, move};
#endif
