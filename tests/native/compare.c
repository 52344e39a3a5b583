/* Compares the kernels that this processor can run with plain arithmetic, without Python: so it can
 * be built for another processor and run by an emulator. Prints the names of those that agree.
 *
 *     cc -std=c11 -O3 -I lmzip/native tests/native/compare.c lmzip/native/kernel_*.c lmzip/native/dispatch.c
 */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 41, TAPS = 5, ROWS = 60, MOST_INPUTS = 144, MOST_BLOCKS = 7, LOGISTICS = 7, MOST_LOGISTICS = 35 };

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
static int16_t packed[2 * sizeof plain / 2];
static int32_t shift[MOST_BLOCKS * LANES], half[MOST_BLOCKS * LANES], odd[MOST_BLOCKS * LANES];
static int32_t bases[3 * MOST_BLOCKS * LANES], pattern[COLUMNS], place[COLUMNS];
static uint32_t at[COLUMNS * TAPS];
static const int32_t taps[TAPS] = {0, 1, 2, 3, 4};

/* Lay out weights as the kernel wants them. */
static void pack(const Kernel *kernel, const Layer *layer) {
    memset(packed, 0, sizeof packed);
    for (int block = 0; block < layer->blocks; block++)
        for (int t = 0; t < layer->taps; t++)
            for (int k = 0; k < layer->pairs; k++)
                for (int i = 0; i < 2 * LANES; i++) {
                    int lane = kernel->interleaved ? i / 2 : i % LANES;
                    int second = kernel->interleaved ? i % 2 : i / LANES;
                    int place = ((block * layer->taps + t) * layer->pairs + k) * 2 * LANES + i;
                    if (layer->skips == SKIP_PAIRS)
                        place = (k * layer->blocks + block) * 2 * LANES + i;
                    if (layer->skips == SKIP_INPUTS) {
                        int inputs = t * layer->pairs * 2 + 2 * k + second;
                        place = (inputs * ((layer->blocks + 1) / 2) + block / 2) * 2 * LANES;
                        place += lane / 4 * 8 + block % 2 * 4 + lane % 4;
                    }
                    packed[place] = plain[block * LANES + lane][t][2 * k + second];
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
                       Skipping skips) {
    static int32_t wide[COLUMNS * MOST_BLOCKS * LANES], before[COLUMNS * MOST_BLOCKS * LANES];
    static int16_t narrow[COLUMNS * MOST_BLOCKS * LANES];
    uint32_t own[COLUMNS];
    const int outputs = blocks * LANES, pairs = (inputs + 1) / 2, used = skips == SKIP_PAIRS ? 1 : TAPS;
    const int32_t low = kind == SET_NARROW ? 0 : -100000, high = kind == SET_NARROW ? 32767 : 100000;
    draw_layer(outputs, inputs, most);
    if (skips)
        clear_rows(inputs);
    for (int i = 0; i < COLUMNS * outputs; i++)
        before[i] = wide[i] = draw(-100000, 100000);
    Layer layer = {blocks, used, pairs, skips, packed, shift, half, odd};
    Inputs in = {rows, MOST_INPUTS, ROWS, used, taps, at, bases, pattern, place};
    pack(kernel, &layer);
    const int bits = draw(0, 24);
    const int32_t top = draw(1, 32767);
    for (int i = 0; i < COLUMNS; i++)
        own[i] = (uint32_t)(COLUMNS - 1 - i);
    Target target = {kind, low, high, (size_t)outputs, wide, narrow, own, bits, top};
    kernel->multiply(&layer, &in, &target, n);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < outputs; o++) {
            int64_t sum = bases[pattern[i] * outputs + o];
            for (int t = 0; t < used; t++)
                for (int k = 0; k < inputs; k++)
                    sum += (int64_t)plain[o][t][k] * rows[at[i * used + t] * MOST_INPUTS + k];
            int64_t result = round_even(sum, shift[o]);
            result += kind == ADD_TO_STREAM || kind == ADD_WIDE ? before[i * outputs + o] : 0;
            result = clip(result, low, high);
            int32_t found = kind == SET_NARROW ? narrow[i * outputs + o] : wide[i * outputs + o];
            if (found != result)
                return 0;
            if (kind != SET_STREAM && kind != ADD_TO_STREAM)
                continue;
            if (narrow[own[i] * outputs + o] != clip(round_even(result, bits), 0, top))
                return 0;
        }
    return 1;
}

static int check_predict(const Kernel *kernel) {
    const int channels = draw(1, 3), mixtures = draw(1, MOST_LOGISTICS), shift = draw(0, 12);
    const int count = (1 + 2 * channels + channels * (channels - 1) / 2) * mixtures;
    int32_t weights[9 * NEIGHBOURS], inputs[3 * NEIGHBOURS];
    int32_t outputs[10 * MOST_LOGISTICS], before[10 * MOST_LOGISTICS];
    for (int i = 0; i < 9 * NEIGHBOURS; i++)
        weights[i] = draw(-1000, 1000);
    for (int i = 0; i < 3 * NEIGHBOURS; i++)
        inputs[i] = draw(-255, 255);
    for (int i = 0; i < 10 * MOST_LOGISTICS; i++)
        outputs[i] = before[i] = draw(-30000, 30000);
    const Predictor predictor = {weights, channels, mixtures, shift, 8160, MEAN_LOW, MEAN_HIGH, 4096};
    kernel->predict(&predictor, inputs, outputs);
    for (int i = 0; i < count; i++) {
        int64_t sum = 0, expected = before[i];
        const int channel = i / mixtures - 1;
        for (int j = 0; channel >= 0 && channel < channels && j < channels * NEIGHBOURS; j++)
            sum += (int64_t)weights[channel * channels * NEIGHBOURS + j] * inputs[j];
        if (channel >= 0 && channel < channels)
            expected = clip(expected + round_even(sum, shift) + 8160, MEAN_LOW, MEAN_HIGH);
        if (channel >= 2 * channels)
            expected = clip(expected, -4096, 4096);
        if (outputs[i] != expected)
            return 0;
    }
    return 1;
}

/* The logistics of a column: so many, and others that weigh nothing. */
typedef struct {
    int32_t scale[MOST_LOGISTICS + LANES], zero[MOST_LOGISTICS + LANES];
    int32_t weight[MOST_LOGISTICS + LANES];
} Column;

static int check_place(const Kernel *kernel) {
    enum { SCALES = 50 };
    static Column column;
    const int channels = draw(1, 3), channel = draw(0, channels - 1), count = draw(1, MOST_LOGISTICS);
    int32_t outputs[10 * MOST_LOGISTICS + LANES], scales[SCALES], levels[3];
    for (int i = 0; i < 10 * MOST_LOGISTICS + LANES; i++)
        outputs[i] = i < (1 + channels) * count       ? draw(MEAN_LOW, MEAN_HIGH)
                     : i < (1 + 2 * channels) * count ? draw(-10, SCALES + 10)
                                                      : draw(-4096, 4096);
    for (int i = 0; i < SCALES; i++)
        scales[i] = draw(1, 65536);
    for (int c = 0; c < 3; c++)
        levels[c] = draw(0, 255) << MEAN_BITS;
    const Source source = {outputs, levels, channels, channel, scales, SCALES};
    const Logistics all = {count, column.scale, column.zero, column.weight, NULL, NULL};
    kernel->place(&all, &source);
    const int32_t *means = outputs + count, *coefficients = outputs + (1 + 2 * channels) * count;
    for (int k = 0; k < count; k++) {
        int64_t mean = means[channel * count + k];
        for (int e = 0; e < channel; e++) {
            int32_t coefficient = coefficients[(channel * (channel - 1) / 2 + e) * count + k];
            mean += ((int64_t)coefficient * (levels[e] - means[e * count + k]) + 512) >> 10;
        }
        int32_t scale = scales[clip(means[(channels + channel) * count + k], 0, SCALES - 1)];
        int64_t zero = (int64_t)clip(mean, MEAN_LOW, MEAN_HIGH) * scale - (8192 << SCALE_BITS);
        if (column.scale[k] != scale || column.zero[k] != zero)
            return 0;
    }
    return 1;
}

/* A logistic's function below a level. */
static uint32_t find_logistic(const Logistics *all, int k, int level) {
    int64_t entry = ((level * 64 - 32) * (int64_t)all->scale[k] - all->zero[k]) >> SCALE_BITS;
    return level == 0     ? 0
           : level == 256 ? 65536
                          : (uint32_t)all->table[clip(entry, 0, TABLE_END)];
}

static uint64_t find_mixture(const Logistics *all, int level) {
    uint64_t sum = 0;
    for (int k = 0; k < all->count; k++)
        sum += (uint64_t)find_logistic(all, k, level) * (uint32_t)all->weight[k];
    return sum;
}

/* Divide by 2^bits and round half up. */
static int64_t halve(int64_t x, int bits) { return (x + ((int64_t)1 << (bits - 1))) >> bits; }

static int check_mixture(const Kernel *kernel) {
    static int32_t table[TABLE_END + 1];
    static Column column;
    const int count = draw(1, MOST_LOGISTICS), high = draw(0, 15);
    const int sample = draw(0, 1) ? draw(0, 255) : 255 * draw(0, 1);
    uint32_t cdf[LANES + 1], values[MOST_LOGISTICS + LANES];
    float frequencies[LANES];
    memset(&column, 0, sizeof column);
    for (int i = 0; i <= TABLE_END; i++)
        table[i] = 4 * i + draw(0, 3);
    table[TABLE_END] = 65536;
    if (draw(0, 1))
        for (int i = 0; i < 4000; i++) /* as far as that, the mixture is empty */
            table[i] = 0;
    int32_t left = 1 << WEIGHT_BITS;
    for (int k = 0; k < count; k++) {
        column.scale[k] = draw(0, 1) ? draw(1, 1000) : draw(1, 65536);
        column.zero[k] = draw(MEAN_LOW, MEAN_HIGH) * column.scale[k] - (8192 << SCALE_BITS);
        left -= column.weight[k] = k + 1 < count ? draw(0, left) : left;
    }
    const Logistics all = {count, column.scale, column.zero, column.weight, NULL, table};
    const int room = (count + LANES - 1) / LANES * LANES, noted = draw(0, 1);
    int32_t parts[PARTS * (MOST_LOGISTICS + LANES)];
    kernel->weigh(&all, sample, values, noted ? parts : NULL);
    for (int k = 0; k < count; k++) {
        const uint32_t below = find_logistic(&all, k, sample), above = find_logistic(&all, k, sample + 1);
        if (values[k] != (above - below) * (uint32_t)all.weight[k])
            return 0;
        int64_t slope = ((int64_t)below + above - 65536) >> 1, scale = all.scale[k];
        int64_t entry = clip((64 * sample * scale - all.zero[k]) >> 9, 0, TABLE_END) - 8192;
        if (noted && (parts[SLOPE * room + k] != slope || parts[SCALE * room + k] != scale >> 1 ||
                      parts[BEYOND * room + k] != halve(entry * slope - 22369622, 13)))
            return 0;
    }
    if (kernel->cumulative(&all, sample) != find_mixture(&all, sample) ||
        kernel->cumulative(&all, 256) != (uint32_t)1 << TOTAL_BITS)
        return 0;
    kernel->find_high(&all, cdf, frequencies);
    for (int j = 0; j <= LANES; j++) {
        uint64_t end = find_mixture(&all, 16 * j), before = j ? find_mixture(&all, 16 * (j - 1)) : 0;
        if (cdf[j] != end)
            return 0;
        if (j && (uint64_t)frequencies[j - 1] != (end * SHARED >> 31) - (before * SHARED >> 31))
            return 0;
    }
    kernel->find_low(&all, high, cdf + high, frequencies);
    const uint64_t start = cdf[high], total = cdf[high + 1] - start;
    uint64_t before = 0;
    for (int j = 1; j <= LANES; j++) {
        uint64_t part = find_mixture(&all, 16 * high + j) - start;
        uint64_t end = total ? part * SHARED / total : (uint64_t)j * SHARED / LANES;
        if ((uint64_t)frequencies[j - 1] != end - before)
            return 0;
        before = end;
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

/* What the outputs of a column teach, kind by kind. */
static int check_gradients(const Kernel *kernel) {
    enum { MOST_OUTPUTS = 15 * MOST_LOGISTICS };
    const int channels = draw(1, MOST_ADAPTIVE), coded = draw(1, channels), count = draw(1, MOST_LOGISTICS);
    const int room = (count + LANES - 1) / LANES * LANES, means = count, log_scales = means + channels * count;
    const int coefficients = log_scales + channels * count;
    int32_t outputs[MOST_OUTPUTS + LANES], levels[MOST_ADAPTIVE], gradients[MOST_OUTPUTS + LANES];
    int32_t prior[MOST_LOGISTICS + LANES] = {0}, posterior[MOST_LOGISTICS + LANES] = {0};
    int32_t parts[MOST_ADAPTIVE * PARTS * (MOST_LOGISTICS + LANES)];
    int64_t expected[MOST_OUTPUTS] = {0}, pulls[MOST_ADAPTIVE];
    memset(gradients, 0, sizeof gradients);
    for (int i = 0; i < MOST_OUTPUTS + LANES; i++)
        outputs[i] = i < log_scales ? draw(MEAN_LOW, MEAN_HIGH) : draw(-4096, 4096);
    for (int c = 0; c < channels; c++)
        levels[c] = draw(0, 255) << MEAN_BITS;
    for (int k = 0; k < count; k++) {
        prior[k] = draw(0, 1 << draw(0, WEIGHT_BITS));
        posterior[k] = draw(0, 1 << draw(0, WEIGHT_BITS));
    }
    for (int i = 0; i < MOST_ADAPTIVE * PARTS * room; i++) {
        const int part = i / room % PARTS, most = draw(0, 1) ? 100 : 32768;
        parts[i] = part == SLOPE ? draw(-most, most) : part == SCALE ? draw(0, most) : draw(-35499, 30037);
    }
    const Evidence evidence = {outputs, levels, prior, posterior, parts, channels, coded, count, room};
    kernel->find_gradients(&evidence, gradients);
    for (int k = 0; k < count; k++) {
        expected[k] = halve(posterior[k] - prior[k], 7);
        for (int c = 0; c < coded; c++) {
            const int32_t *part = parts + c * PARTS * room + k;
            const int first = coefficients + c * (c - 1) / 2 * count + k;
            pulls[c] = halve((int64_t)posterior[k] * part[SLOPE * room], 15) * part[SCALE * room];
            expected[means + c * count + k] = pulls[c] = halve(pulls[c], 16);
            expected[log_scales + c * count + k] = halve((int64_t)posterior[k] * part[BEYOND * room], 18);
            for (int e = 0; e < c; e++) {
                const int64_t residual = levels[e] - outputs[means + e * count + k];
                expected[means + e * count + k] -= halve(outputs[first + e * count] * pulls[c], 10);
                expected[first + e * count] = halve(pulls[c] * residual, 6);
            }
        }
    }
    for (int i = 0; i < MOST_OUTPUTS; i++)
        if (gradients[i] != clip(expected[i], -2047, 2047))
            return 0;
    return 1;
}

/* How changes are pulled and moved. */
static int check_learner(const Kernel *kernel) {
    enum { COLUMNS_MOST = 256, FEATURES = 128, BLOCKS = MOST_BLOCKS, WIDTH = BLOCKS * LANES };
    static int32_t rates[WIDTH], changes[(FEATURES + 1) * WIDTH], moved[(FEATURES + 1) * WIDTH];
    static int32_t bases[WIDTH], gradients[(COLUMNS_MOST + 1) * WIDTH + LANES], sums[(FEATURES + 1) * WIDTH];
    static int64_t pulls[(FEATURES + 1) * WIDTH], expected[(FEATURES + 1) * WIDTH];
    static int16_t weights[FEATURES * WIDTH], woven[COLUMNS_MOST * WIDTH], inputs[COLUMNS_MOST * (FEATURES + 1)];
    static int16_t seen[COLUMNS_MOST * FEATURES];
    const int blocks = draw(1, BLOCKS), features = LANES * draw(1, FEATURES / LANES), outputs = blocks * LANES;
    const int n = draw(0, 3) ? draw(1, 20) : COLUMNS_MOST - draw(0, 1), extreme = !draw(0, 3);
    const Learner learner = {blocks, features, rates, changes, pulls, weights, bases, gradients, woven, inputs, sums};
    for (int o = 0; o < outputs; o++)
        rates[o] = draw(0, 40);
    for (int i = 0; i < (features + 1) * outputs; i++) {
        changes[i] = moved[i] = draw(0, 2) ? draw(-4095, 4095) : 4095 - 8190 * draw(0, 1);
        pulls[i] = expected[i] = draw(0, 3) ? ((int64_t)draw(-1000000, 1000000) << 16) + draw(-9, 9) : draw(-1, 1);
    }
    for (int i = 0; i < (n + 1) * outputs + LANES; i++) /* what is behind the last column does not count */
        gradients[i] = extreme ? -2047 : draw(-2047, 2047) * draw(0, 1);
    for (int i = 0; i < n * features; i++)
        seen[i] = (int16_t)(extreme ? 4095 : draw(0, 4095) * draw(0, 1));
    for (int f = 0; f <= features; f++)
        for (int i = 0; i < n; i++)
            for (int o = 0; o < outputs; o++)
                expected[f * outputs + o] +=
                    (int64_t)gradients[i * outputs + o] * (f < features ? seen[i * features + f] : 4096);
    kernel->pull(&learner, seen, n);
    for (int i = 0; i < (features + 1) * outputs; i++)
        if (pulls[i] != expected[i])
            return 0;
    kernel->move(&learner);
    for (int f = 0; f <= features; f++)
        for (int o = 0; o < outputs; o++) {
            const int64_t was = expected[f * outputs + o];
            const int step = was > 0 ? rates[o] : was < 0 ? -rates[o] : 0;
            const int32_t change = clip(moved[f * outputs + o] + step, -4095, 4095);
            const int place = (o / LANES * (features / 2) + f / 2) * 2 * LANES;
            const int within = kernel->interleaved ? o % LANES * 2 + f % 2 : o % LANES + f % 2 * LANES;
            if (pulls[f * outputs + o] != was - (was >> 2) || changes[f * outputs + o] != change ||
                (f < features ? weights[place + within] != change : bases[o] != 4096 * change))
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
                for (int skips = 0; skips <= (int)kernel->skips; skips += kernel->skips ? kernel->skips : 1)
                    if (!check_layer(kernel, (Kind)kind, n, inputs[i], 1 + (i + n) % MOST_BLOCKS,
                                     most[n % 3], (Skipping)skips))
                        return 0;
    for (int i = 0; i < 2000; i++)
        if (!check_predict(kernel) || !check_place(kernel) || !check_mixture(kernel) ||
            !check_cumulate_deep(kernel) || !check_gradients(kernel))
            return 0;
    for (int i = 0; i < 20; i++)
        if (!check_learner(kernel))
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
