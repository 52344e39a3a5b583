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

static inline void _mm512_storeu_ps(void *to, __m512i x) { memcpy(to, &x, sizeof x); }

OPERATION _mm512_cvtepi32_ps(__m512i x) {
    EACH {
        float value = (float)x.v[o];
        memcpy(&x.v[o], &value, sizeof value);
    }
    return x;
}

OPERATION _mm512_setzero_si512(void) { return _mm512_set1_epi32(0); }

OPERATION _mm512_or_si512(__m512i x, __m512i y) {
    EACH x.v[o] |= y.v[o];
    return x;
}

/* The upper lanes of y, from one on, and then the lower ones of x. */
OPERATION _mm512_alignr_epi32(__m512i x, __m512i y, int from) {
    __m512i z;
    EACH z.v[o] = o + from < 16 ? y.v[o + from] : x.v[o + from - 16];
    return z;
}

/* What follows is on 32 lanes of 16 bits. */
typedef uint32_t __mmask32;

typedef struct {
    int16_t v[32];
} halves;

static inline halves to_halves(__m512i x) {
    halves y;
    memcpy(&y, &x, sizeof y);
    return y;
}

static inline __m512i from_halves(halves x) {
    __m512i y;
    memcpy(&y, &x, sizeof y);
    return y;
}

#define EACH_HALF for (int o = 0; o < 32; o++)

OPERATION _mm512_set1_epi16(int16_t value) {
    halves x;
    EACH_HALF x.v[o] = value;
    return from_halves(x);
}

OPERATION _mm512_add_epi16(__m512i a, __m512i b) {
    halves x = to_halves(a), y = to_halves(b);
    EACH_HALF x.v[o] = (int16_t)(uint16_t)(x.v[o] + y.v[o]);
    return from_halves(x);
}

OPERATION _mm512_maskz_loadu_epi16(__mmask32 mask, const void *from) {
    halves x = {{0}};
    EACH_HALF if (mask >> o & 1) memcpy(&x.v[o], (const char *)from + 2 * o, 2);
    return from_halves(x);
}

static inline __mmask32 _mm512_test_epi16_mask(__m512i a, __m512i b) {
    halves x = to_halves(a), y = to_halves(b);
    __mmask32 mask = 0;
    EACH_HALF mask |= (__mmask32)((x.v[o] & y.v[o]) != 0) << o;
    return mask;
}

OPERATION _mm512_maskz_compress_epi16(__mmask32 mask, __m512i a) {
    halves x = to_halves(a), y = {{0}};
    int n = 0;
    EACH_HALF if (mask >> o & 1) y.v[n++] = x.v[o];
    return from_halves(y);
}

/* Of each quarter, the lower or upper four numbers, by turns from a and from b. */
static inline __m512i unpack(__m512i a, __m512i b, int from) {
    halves x = to_halves(a), y = to_halves(b), z;
    EACH_HALF {
        int at = o / 8 * 8 + from + o % 8 / 2;
        z.v[o] = o % 2 ? y.v[at] : x.v[at];
    }
    return from_halves(z);
}

OPERATION _mm512_unpacklo_epi16(__m512i a, __m512i b) { return unpack(a, b, 0); }

OPERATION _mm512_unpackhi_epi16(__m512i a, __m512i b) { return unpack(a, b, 4); }

static inline int _mm_popcnt_u32(uint32_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

#undef EACH_HALF
#undef EACH
#undef OPERATION
