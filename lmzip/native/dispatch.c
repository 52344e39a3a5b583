/* Which kernels this processor can run, by its own flags. */
#include "kernel.h"

#ifdef LMZIP_X86
#if defined(_MSC_VER)
#include <intrin.h>

static void read_cpuid(int leaf, uint32_t found[4]) { __cpuidex((int *)found, leaf, 0); }

static uint64_t read_saved_state(void) { return _xgetbv(0); }
#else
#include <cpuid.h>

static void read_cpuid(int leaf, uint32_t found[4]) {
    if (!__get_cpuid_count((unsigned)leaf, 0, &found[0], &found[1], &found[2], &found[3]))
        found[0] = found[1] = found[2] = found[3] = 0;
}

static uint64_t read_saved_state(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

enum { EBX = 1, ECX = 2, YMM_STATE = 0x6, ZMM_STATE = 0xe6 };

static int has(uint32_t word, int bit) { return word >> bit & 1; }

static int count_x86(const Kernel **found) {
    uint32_t basic[4], more[4];
    int count = 0;
    read_cpuid(1, basic);
    if (!has(basic[ECX], 27)) /* the system does not say which registers it saves */
        return 0;
    uint64_t saved = read_saved_state();
    read_cpuid(7, more);
    if ((saved & ZMM_STATE) == ZMM_STATE && has(more[EBX], 16) && has(more[EBX], 30) &&
        has(more[ECX], 6) && has(more[ECX], 11) && has(basic[ECX], 23))
        found[count++] = &avx512_kernel; /* AVX512F, AVX512BW, VBMI2, VNNI, POPCNT */
    if ((saved & YMM_STATE) == YMM_STATE && has(more[EBX], 5) && has(more[EBX], 3))
        found[count++] = &avx2_kernel; /* AVX2, BMI1 */
    return count;
}
#endif

const Kernel *const *list_kernels(void) {
    static const Kernel *found[4];
    const Kernel *kernels[4] = {NULL};
    int count = 0;
#ifdef LMZIP_X86
    count = count_x86(kernels);
#endif
#ifdef LMZIP_ARM
    kernels[count++] = &neon_kernel;
#endif
    kernels[count] = &portable_kernel;
    for (int i = 0; i < 4; i++) /* whoever asks at the same time writes the same */
        found[i] = kernels[i];
    return found;
}
