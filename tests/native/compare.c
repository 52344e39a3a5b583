/* Compares the kernels that this processor can run with plain arithmetic, without Python: so it can
 * be built for another processor and run by an emulator. Prints the names of those that agree.
 *
 *     cc -std=c11 -O3 -I lmzip/native tests/native/compare.c lmzip/native/kernel_*.c lmzip/native/dispatch.c
 */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 41, TAPS = 5, ROWS = 60, MOST_INPUTS = 144, MOST_BLOCKS = 7, LOGISTICS = 7 };

static uint64_t state = 1;

/* An integer from low to high. */
static int32_t draw(int32_t low, int32_t high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int32_t)((state >> 33) % ((uint64_t)high - low + 1));
}

static int32_t clip(int64_t x, int32_t low, int32_t high) {
    return (int32_t)(x < low ? low : x > high ? high : x);
}

/* Round half to even by comparing remainders, not as the kernels do. */
static int64_t round_even(int64_t x, int shift) {
    int64_t one = (int64_t)1 << shift, down = x >> shift, rest = 2 * (x - down * one);
    return down + (rest > one || (rest == one && (down & 1)));
}

static int16_t rows[(ROWS + 1) * MOST_INPUTS], plain[MOST_BLOCKS * LANES][TAPS][MOST_INPUTS];
static int16_t packed[sizeof plain / 2];
static int32_t shift[MOST_BLOCKS * LANES], half[MOST_BLOCKS * LANES], odd[MOST_BLOCKS * LANES];
static int32_t bases[3 * MOST_BLOCKS * LANES], pattern[COLUMNS], place[COLUMNS];
static uint32_t at[COLUMNS * TAPS];
static const int32_t taps[TAPS] = {0, 1, 2, 3, 4};

/* Lay out weights as the kernel wants them. */
static void pack(const Kernel *kernel, const Layer *layer) {
    for (int block = 0; block < layer->blocks; block++)
        for (int t = 0; t < layer->taps; t++)
            for (int k = 0; k < layer->pairs; k++)
                for (int i = 0; i < 2 * LANES; i++) {
                    int lane = kernel->interleaved ? i / 2 : i % LANES;
                    int input = 2 * k + (kernel->interleaved ? i % 2 : i / LANES);
                    int place = layer->by_pair ? k * layer->blocks + block
                                               : (block * layer->taps + t) * layer->pairs + k;
                    packed[place * 2 * LANES + i] = plain[block * LANES + lane][t][input];
                }
}

/* Draw a layer whose sums stay below 2^24: a few large weights for large inputs, or small ones. */
static void draw_layer(int outputs, int inputs, int32_t input_max) {
    int32_t room = ((1 << 24) - 100000) / input_max / (TAPS * inputs);
    int32_t most = room < 32767 ? room : 32767;
    memset(plain, 0, sizeof plain);
    for (int o = 0; o < outputs; o++) {
        shift[o] = draw(0, 24);
        half[o] = shift[o] ? (1 << (shift[o] - 1)) - 1 : 0;
        odd[o] = shift[o] > 0;
        for (int p = 0; p < 3; p++)
            bases[p * outputs + o] = draw(-100000, 100000);
        for (int t = 0; t < TAPS; t++)
            for (int i = 0; i < inputs; i++)
                plain[o][t][i] = (int16_t)(o % 3 ? draw(-most, most) : most);
    }
    for (int i = 0; i < ROWS * MOST_INPUTS; i++)
        rows[i] = (int16_t)(draw(0, 2) ? input_max : draw(-input_max, input_max));
    for (int i = 0; i < COLUMNS; i++) {
        pattern[i] = draw(0, 2);
        place[i] = i;
        for (int t = 0; t < TAPS; t++)
            at[i * TAPS + t] = (uint32_t)(draw(0, 3) ? draw(0, ROWS - 1) : ROWS);
    }
}

/* Turn most inputs into zeros, and all beyond the last. */
static void clear_rows(int inputs) {
    for (int i = 0; i < ROWS * MOST_INPUTS; i++)
        if (i % MOST_INPUTS >= inputs || draw(0, 2))
            rows[i] = 0;
}

static int check_layer(const Kernel *kernel, Kind kind, int n, int inputs, int blocks, int32_t most,
                       int by_pair) {
    static int32_t wide[COLUMNS * MOST_BLOCKS * LANES], before[COLUMNS * MOST_BLOCKS * LANES];
    static int16_t narrow[COLUMNS * MOST_BLOCKS * LANES];
    const int outputs = blocks * LANES, pairs = (inputs + 1) / 2, used = by_pair ? 1 : TAPS;
    const int32_t low = kind == SET_NARROW ? 0 : -100000, high = kind == SET_NARROW ? 32767 : 100000;
    draw_layer(outputs, inputs, most);
    if (by_pair)
        clear_rows(inputs);
    for (int i = 0; i < COLUMNS * outputs; i++)
        before[i] = wide[i] = draw(-100000, 100000);
    Layer layer = {blocks, used, pairs, by_pair, packed, shift, half, odd};
    Inputs in = {rows, MOST_INPUTS, ROWS, used, taps, at, bases, pattern, place};
    pack(kernel, &layer);
    Target target = {kind, wide, narrow, (size_t)outputs, low, high};
    kernel->multiply(&layer, &in, &target, n);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < outputs; o++) {
            int64_t sum = bases[pattern[i] * outputs + o];
            for (int t = 0; t < used; t++)
                for (int k = 0; k < inputs; k++)
                    sum += (int64_t)plain[o][t][k] * rows[at[i * used + t] * MOST_INPUTS + k];
            int64_t result = round_even(sum, shift[o]);
            result += kind == ADD_TO_WIDE ? before[i * outputs + o] : 0;
            int32_t found = kind == SET_NARROW ? narrow[i * outputs + o] : wide[i * outputs + o];
            if (found != clip(result, low, high))
                return 0;
        }
    return 1;
}

static int check_activate(const Kernel *kernel, int bits) {
    int32_t stream[COLUMNS * LANES];
    int16_t found[COLUMNS * LANES];
    uint32_t own[COLUMNS];
    for (int i = 0; i < COLUMNS * LANES; i++)
        stream[i] = draw(-(1 << 24), 1 << 24);
    for (int i = 0; i < COLUMNS; i++)
        own[i] = (uint32_t)(COLUMNS - 1 - i);
    kernel->activate(stream, 1, COLUMNS, bits, 32767, found, own);
    for (int i = 0; i < COLUMNS * LANES; i++) {
        int row = COLUMNS - 1 - i / LANES;
        if (found[row * LANES + i % LANES] != clip(round_even(stream[i], bits), 0, 32767))
            return 0;
    }
    return 1;
}

static int check_cumulate(const Kernel *kernel, int apart) {
    static int32_t table[TABLE_END + 1];
    int32_t scale[LOGISTICS], zero[LOGISTICS], weight[LOGISTICS];
    uint32_t found[LANES];
    for (int i = 0; i <= TABLE_END; i++)
        table[i] = 4 * i + draw(0, 3);
    table[TABLE_END] = 65536;
    for (int k = 0; k < LOGISTICS; k++) {
        scale[k] = draw(0, 1) ? draw(1, 1000) : draw(1, 65536);
        zero[k] = draw(-4096, 20480) * scale[k] - (8192 << SCALE_BITS);
        weight[k] = k ? 0 : 32768;
    }
    Logistics all = {LOGISTICS, scale, zero, weight, NULL, table};
    kernel->cumulate(&all, apart, found);
    for (int j = 0; j < LANES; j++) {
        uint64_t sum = 0;
        for (int k = 0; k < LOGISTICS; k++) {
            int64_t entry = (((j + 1) * apart * 64 - 32) * (int64_t)scale[k] - zero[k]) >> SCALE_BITS;
            sum += (uint64_t)table[clip(entry, 0, TABLE_END)] * (uint32_t)weight[k];
        }
        if (found[j] != sum)
            return 0;
    }
    return 1;
}

static int check_cumulate_deep(const Kernel *kernel) {
    static int32_t table[TABLE_END + 1];
    int32_t scale[LOGISTICS], mean[LOGISTICS], weight[LOGISTICS], limit[LOGISTICS];
    int32_t boundaries[LANES], from = draw(0, 1 << RANGE_BITS), apart = draw(1, 1 << draw(0, 16));
    uint64_t found[LANES];
    for (int i = 0; i <= TABLE_END; i++)
        table[i] = 4 * i + draw(0, 3);
    table[TABLE_END] = 65536;
    for (int k = 0; k < LOGISTICS; k++) {
        scale[k] = draw(0, 1) ? draw(1, 1000) : draw(1, 65536 * 255 / 16);
        mean[k] = draw(0, 1) ? draw(-4096 * 64, 20480 * 64) : from + draw(-100000, 100000);
        limit[k] = (1 << 28) / scale[k] + 1;
        weight[k] = k < 2 ? 16384 : 0;
    }
    for (int j = 0; j < LANES; j++)
        boundaries[j] = clip(from + (int64_t)j * apart, 0, 1 << RANGE_BITS);
    Logistics all = {LOGISTICS, scale, mean, weight, limit, table};
    kernel->cumulate_deep(&all, boundaries, found);
    for (int j = 0; j < LANES; j++) {
        uint64_t sum = 0;
        for (int k = 0; k < LOGISTICS; k++) {
            int64_t entry = (int64_t)(boundaries[j] - DEEP_HALF_LEVEL - mean[k]) * scale[k];
            entry = clip((entry >> 7) + (8192 << 8), 0, TABLE_END << 8);
            int32_t here = table[entry >> 8], next = table[clip((entry >> 8) + 1, 0, TABLE_END)];
            sum += (uint64_t)(here * 256 + (next - here) * (entry & 255)) * (uint32_t)weight[k];
        }
        if (found[j] != sum)
            return 0;
    }
    return 1;
}

static int check(const Kernel *kernel) {
    static const int inputs[] = {1, 2, 3, 19, 64, 65, 130};
    static const int32_t most[] = {255, 1023, 32767};
    for (int n = 1; n <= COLUMNS; n++)
        for (int i = 0; i < 7; i++)
            for (int kind = SET_WIDE; kind <= SET_NARROW; kind++)
                for (int by_pair = 0; by_pair <= kernel->skips_zeros; by_pair++)
                    if (!check_layer(kernel, (Kind)kind, n, inputs[i], 1 + (i + n) % MOST_BLOCKS,
                                     most[n % 3], by_pair))
                        return 0;
    for (int bits = 0; bits <= 24; bits++)
        if (!check_activate(kernel, bits))
            return 0;
    for (int i = 0; i < 2000; i++)
        if (!check_cumulate(kernel, i % 2 ? 1 : 16) || !check_cumulate_deep(kernel))
            return 0;
    return 1;
}

#ifndef KERNELS
#define KERNELS list_kernels()
#endif

int main(void) {
    for (const Kernel *const *kernel = KERNELS; *kernel; kernel++) {
        if (!check(*kernel)) {
            printf("%s is wrong\n", (*kernel)->name);
            return 1;
        }
        printf("%s\n", (*kernel)->name);
    }
    return 0;
}
