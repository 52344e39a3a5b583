/* The kernel for x86-64 with AVX-512, VNNI and VBMI2: 16 lanes are one register, vpdpwssd multiplies pairs
 * and adds them up (without saturation). */
#include "kernel.h"

#ifdef LMZIP_X86
#include <immintrin.h>
#include <string.h>

#if defined(_MSC_VER)
#define TARGET
#define LANE_OP static __forceinline
#else
#ifdef LMZIP_EMULATED /* by a test, on processors without it */
#define TARGET
#else
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni,avx512vbmi2,popcnt")))
#endif
#define LANE_OP TARGET static inline __attribute__((always_inline))
#endif

typedef __m512i lanes;
typedef __m512i weights;
typedef __m512i pair; /* 16 times */

enum { INTERLEAVED = 1, GROUP = 6, TOGETHER = 4 }; /* 24 sums, 4 weights and a pair in 32 registers */

LANE_OP lanes lanes_load(const int32_t *from) { return _mm512_loadu_si512(from); }

LANE_OP void lanes_store(int32_t *to, lanes x) { _mm512_storeu_si512(to, x); }

LANE_OP void lanes_narrow(int16_t *to, lanes x) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(x));
}

LANE_OP lanes lanes_set(int32_t value) { return _mm512_set1_epi32(value); }

LANE_OP lanes lanes_add(lanes x, lanes y) { return _mm512_add_epi32(x, y); }

LANE_OP lanes lanes_subtract(lanes x, lanes y) { return _mm512_sub_epi32(x, y); }

LANE_OP lanes lanes_multiply(lanes x, lanes y) { return _mm512_mullo_epi32(x, y); }

LANE_OP lanes lanes_and(lanes x, lanes y) { return _mm512_and_si512(x, y); }

LANE_OP lanes lanes_down(lanes x, int bits) { return _mm512_srav_epi32(x, lanes_set(bits)); }

LANE_OP lanes lanes_clip(lanes x, lanes low, lanes high) {
    return _mm512_min_epi32(_mm512_max_epi32(x, low), high);
}

LANE_OP lanes lanes_round(lanes x, lanes half, lanes odd, lanes shift) {
    lanes tie = _mm512_and_si512(_mm512_srav_epi32(x, shift), odd);
    return _mm512_srav_epi32(_mm512_add_epi32(_mm512_add_epi32(x, half), tie), shift);
}

LANE_OP lanes lanes_look_up(const int32_t *table, lanes index) {
    return _mm512_i32gather_epi32(index, table, 4);
}

/* What each lane has more than the one before it. */
LANE_OP lanes lanes_rises(lanes x) {
    return _mm512_sub_epi32(x, _mm512_alignr_epi32(x, _mm512_setzero_si512(), 15));
}

LANE_OP void lanes_floats(float *to, lanes x) { _mm512_storeu_ps(to, _mm512_cvtepi32_ps(x)); }

LANE_OP weights lanes_weights(const int16_t *from) { return _mm512_loadu_si512(from); }

LANE_OP pair lanes_pair(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof both);
    return _mm512_set1_epi32(both);
}

/* GCC would copy each sum before and after the intrinsic, in the loops that skip inputs. */
LANE_OP lanes lanes_dot(lanes sum, pair x, weights w) {
#if defined(_MSC_VER) || defined(LMZIP_EMULATED)
    return _mm512_dpwssd_epi32(sum, x, w);
#else
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
#endif
}

#define SKIPS_INPUTS
#include "loops.h"
#include "mixture_loops.h"
#include "adaptation_loops.h"

const Kernel avx512_kernel = {"avx512", INTERLEAVED, SKIP_INPUTS, multiply, predict, place,
                              weigh, cumulative, find_high, find_low, cumulate_deep,
                              find_gradients, pull, move};
#endif
