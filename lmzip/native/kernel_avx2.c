/* The kernel for x86-64 with AVX2: 16 lanes are two registers, vpmaddwd multiplies pairs. */
#include "kernel.h"

#ifdef LMZIP_X86
#include <immintrin.h>
#include <string.h>

#if defined(_MSC_VER)
#define TARGET
#define LANE_OP static __forceinline
#else
#define TARGET __attribute__((target("avx2,bmi")))
#define LANE_OP TARGET static inline __attribute__((always_inline))
#endif

typedef struct {
    __m256i a, b;
} lanes;

typedef lanes weights;
typedef __m256i pair; /* 8 times */

#define SKIPS_PAIRS
enum { INTERLEAVED = 1, GROUP = 4, TOGETHER = 1 };

LANE_OP lanes lanes_of(__m256i a, __m256i b) {
    lanes x = {a, b};
    return x;
}

LANE_OP lanes lanes_load(const int32_t *from) {
    return lanes_of(_mm256_loadu_si256((const __m256i *)from),
                    _mm256_loadu_si256((const __m256i *)(from + 8)));
}

LANE_OP void lanes_store(int32_t *to, lanes x) {
    _mm256_storeu_si256((__m256i *)to, x.a);
    _mm256_storeu_si256((__m256i *)(to + 8), x.b);
}

LANE_OP void lanes_narrow(int16_t *to, lanes x) {
    __m256i packed = _mm256_packs_epi32(x.a, x.b); /* by halves: a0 b0 a1 b1 */
    _mm256_storeu_si256((__m256i *)to, _mm256_permute4x64_epi64(packed, 0xd8));
}

LANE_OP lanes lanes_set(int32_t value) {
    return lanes_of(_mm256_set1_epi32(value), _mm256_set1_epi32(value));
}

LANE_OP lanes lanes_add(lanes x, lanes y) {
    return lanes_of(_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b));
}

LANE_OP lanes lanes_subtract(lanes x, lanes y) {
    return lanes_of(_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b));
}

LANE_OP lanes lanes_multiply(lanes x, lanes y) {
    return lanes_of(_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b));
}

LANE_OP lanes lanes_and(lanes x, lanes y) {
    return lanes_of(_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b));
}

LANE_OP lanes lanes_down(lanes x, int bits) {
    return lanes_of(_mm256_srai_epi32(x.a, bits), _mm256_srai_epi32(x.b, bits));
}

LANE_OP lanes lanes_clip(lanes x, lanes low, lanes high) {
    return lanes_of(_mm256_min_epi32(_mm256_max_epi32(x.a, low.a), high.a),
                    _mm256_min_epi32(_mm256_max_epi32(x.b, low.b), high.b));
}

LANE_OP __m256i round_half(__m256i x, __m256i half, __m256i odd, __m256i shift) {
    __m256i tie = _mm256_and_si256(_mm256_srav_epi32(x, shift), odd);
    return _mm256_srav_epi32(_mm256_add_epi32(_mm256_add_epi32(x, half), tie), shift);
}

LANE_OP lanes lanes_round(lanes x, lanes half, lanes odd, lanes shift) {
    return lanes_of(round_half(x.a, half.a, odd.a, shift.a),
                    round_half(x.b, half.b, odd.b, shift.b));
}

LANE_OP lanes lanes_look_up(const int32_t *table, lanes index) {
    return lanes_of(_mm256_i32gather_epi32((const int *)table, index.a, 4),
                    _mm256_i32gather_epi32((const int *)table, index.b, 4));
}

/* What each lane has more than the one before it. */
LANE_OP lanes lanes_rises(lanes x) {
    __m256i below = _mm256_permute2x128_si256(x.a, x.a, 0x08); /* zeros, and the lower half of a */
    __m256i between = _mm256_permute2x128_si256(x.a, x.b, 0x21);
    return lanes_of(_mm256_sub_epi32(x.a, _mm256_alignr_epi8(x.a, below, 12)),
                    _mm256_sub_epi32(x.b, _mm256_alignr_epi8(x.b, between, 12)));
}

LANE_OP void lanes_floats(float *to, lanes x) {
    _mm256_storeu_ps(to, _mm256_cvtepi32_ps(x.a));
    _mm256_storeu_ps(to + 8, _mm256_cvtepi32_ps(x.b));
}

LANE_OP weights lanes_weights(const int16_t *from) {
    return lanes_of(_mm256_loadu_si256((const __m256i *)from),
                    _mm256_loadu_si256((const __m256i *)(from + LANES)));
}

LANE_OP pair lanes_pair(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof both);
    return _mm256_set1_epi32(both);
}

LANE_OP lanes lanes_dot(lanes sum, pair x, weights w) {
    return lanes_of(_mm256_add_epi32(sum.a, _mm256_madd_epi16(x, w.a)),
                    _mm256_add_epi32(sum.b, _mm256_madd_epi16(x, w.b)));
}

/* Which of eight pairs of inputs are not both zero, as bits. */
LANE_OP uint32_t lanes_nonzero(const int16_t *from) {
    __m256i pairs = _mm256_loadu_si256((const __m256i *)from);
    __m256i zeros = _mm256_cmpeq_epi32(pairs, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(zeros)) ^ 0xff;
}

LANE_OP uint64_t lanes_lowest(uint64_t bits) { return _tzcnt_u64(bits); }

#include "loops.h"
#include "mixture_loops.h"
#include "adaptation_loops.h"

const Kernel avx2_kernel = {"avx2", INTERLEAVED, SKIP_PAIRS, multiply, predict, place,
                            weigh, cumulative, find_high, find_low, cumulate_deep,
                            find_gradients, pull, move};
#endif
