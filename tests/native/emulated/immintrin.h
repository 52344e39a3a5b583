/* The few AVX-512 operations of kernel_avx512.c in plain C, after Intel's description of each, so
 * that the kernel's logic can be tested on processors that have none of them. */
#include <stdint.h>
#include <string.h>

typedef struct {
    int32_t v[16];
} __m512i;

typedef struct {
    int16_t v[16];
} __m256i;

#define EACH for (int o = 0; o < 16; o++)
#define OPERATION static inline __m512i

OPERATION _mm512_loadu_si512(const void *from) {
    __m512i x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void _mm512_storeu_si512(void *to, __m512i x) { memcpy(to, &x, sizeof x); }

static inline void _mm256_storeu_si256(__m256i *to, __m256i x) { memcpy(to, &x, sizeof x); }

static inline __m256i _mm512_cvtepi32_epi16(__m512i x) { /* the low halves */
    __m256i y;
    EACH y.v[o] = (int16_t)(uint32_t)x.v[o];
    return y;
}

OPERATION _mm512_set1_epi32(int32_t value) {
    __m512i x;
    EACH x.v[o] = value;
    return x;
}

OPERATION _mm512_add_epi32(__m512i x, __m512i y) {
    EACH x.v[o] = (int32_t)((uint32_t)x.v[o] + (uint32_t)y.v[o]);
    return x;
}

OPERATION _mm512_sub_epi32(__m512i x, __m512i y) {
    EACH x.v[o] = (int32_t)((uint32_t)x.v[o] - (uint32_t)y.v[o]);
    return x;
}

OPERATION _mm512_mullo_epi32(__m512i x, __m512i y) {
    EACH x.v[o] = (int32_t)((uint32_t)x.v[o] * (uint32_t)y.v[o]);
    return x;
}

OPERATION _mm512_and_si512(__m512i x, __m512i y) {
    EACH x.v[o] &= y.v[o];
    return x;
}

OPERATION _mm512_min_epi32(__m512i x, __m512i y) {
    EACH x.v[o] = x.v[o] < y.v[o] ? x.v[o] : y.v[o];
    return x;
}

OPERATION _mm512_max_epi32(__m512i x, __m512i y) {
    EACH x.v[o] = x.v[o] > y.v[o] ? x.v[o] : y.v[o];
    return x;
}

OPERATION _mm512_srav_epi32(__m512i x, __m512i bits) {
    EACH x.v[o] >>= (uint32_t)bits.v[o] < 32 ? bits.v[o] : 31;
    return x;
}

OPERATION _mm512_i32gather_epi32(__m512i index, const void *base, int scale) {
    EACH memcpy(&index.v[o], (const char *)base + (int64_t)index.v[o] * scale, 4);
    return index;
}

/* Both products of each pair of 16-bit numbers are added to the 32-bit number in x. */
OPERATION _mm512_dpwssd_epi32(__m512i x, __m512i a, __m512i b) {
    int16_t left[32], right[32];
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int i = 0; i < 32; i++)
        x.v[i / 2] = (int32_t)((uint32_t)x.v[i / 2] + (uint32_t)(left[i] * right[i]));
    return x;
}

static inline __m256i _mm256_loadu_si256(const __m256i *from) {
    __m256i x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline __m256i _mm256_setzero_si256(void) {
    __m256i x = {{0}};
    return x;
}

static inline __m256i _mm256_cmpeq_epi32(__m256i x, __m256i y) {
    __m256i equal;
    EACH equal.v[o] = memcmp(&x.v[o & ~1], &y.v[o & ~1], 4) ? 0 : -1;
    return equal;
}

static inline __m256i _mm256_castsi256_ps(__m256i x) { return x; }

static inline int _mm256_movemask_ps(__m256i x) { /* the signs */
    int mask = 0;
    for (int o = 0; o < 8; o++)
        mask |= (x.v[2 * o + 1] < 0) << o;
    return mask;
}

static inline uint64_t _tzcnt_u64(uint64_t bits) {
    uint64_t zeros = 0;
    for (; zeros < 64 && !(bits >> zeros & 1); zeros++)
        ;
    return zeros;
}

#undef EACH
#undef OPERATION
