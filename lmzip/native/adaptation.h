/* A network that adapts: what it keeps, and when it is asked. */
#ifndef LMZIP_ADAPTATION_H
#define LMZIP_ADAPTATION_H

#include "network.h"
#include "python_support.h"

enum {
    MOST_FEATURES = 128, /* with those that fill up blocks: 32 bits hold every sum */
    MOST_CHANNELS = 4,
    TOGETHER = 256 /* columns, whose sums of gradients and features 32 bits hold */
};

/* What a gradient is made of, for one logistic and one channel of a column. */
typedef struct {
    int32_t slope, scale, beyond;
} Part;

struct Adaptation {
    int seen;                       /* columns since the last move */
    int16_t *changes;               /* as weights of a layer */
    int32_t *bases, *none, *rates;  /* [output]: what the constant adds; zeros; how far moves go */
    int32_t *correcting, *summing;  /* shift, half and odd of the outputs of either product */
    int64_t *pulls;                 /* [feature, and the constant][output] */
    int32_t *sums;                  /* [column or feature][output]: of either product */
    int16_t *gradients, *features;  /* of columns: as weights of a layer; [feature][column] */
    uint32_t *each;                 /* 0, 1, 2, ... */
    int32_t *prior;                 /* [column][k]: weights before the first channel */
    Part *parts;                    /* [column][channel][k] */
};

/* Returns whether there is memory for it, and the network and the run are such as can adapt. */
int make_adaptation(Run *run, Holdings *holdings, Adaptation *adaptation, size_t columns);

void correct_outputs(Run *run);
void note_prior(Run *run, int column);
void note_channel(Run *run, int column, int sample);
void learn_step(Run *run);

#endif
