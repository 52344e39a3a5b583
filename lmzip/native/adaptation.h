/* A network that adapts: what it keeps, and when it is asked. */
#ifndef LMZIP_ADAPTATION_H
#define LMZIP_ADAPTATION_H

#include "network.h"
#include "python_support.h"

enum {
    MOST_FEATURES = 128, /* with those that fill up blocks */
    MOST_AROUND = 16,    /* pixels whose errors are seen */
    LESSON = 256         /* columns, whose sums of gradients and inputs 32 bits hold */
};

struct Adaptation {
    int seen;             /* columns since the last move */
    int around;           /* of how many pixels errors are seen */
    const int32_t *taps;  /* [around]: which of the first layer's used taps those are, or -1 */
    int16_t *errors;      /* [place][channel], and zeros where nothing is seen */
    int16_t *inputs;      /* [column][feature, error]: what changes are multiplied by */
    Learner learner;
    int32_t *correcting;  /* shift, half and odd of the product of changes and features */
    int32_t *prior;       /* [column][room]: weights before the first channel */
    int32_t *parts;       /* [column][channel][PARTS][room] */
};

/* Let a run adapt in a manner, ((rates of logits, means, log-scales, coefficients), around, taps).
 * Returns whether there is memory for it, and the network and the run are such as can adapt. */
int make_adaptation(Run *run, Holdings *holdings, Adaptation *adaptation, size_t columns,
                    PyObject *manner);

void correct_outputs(Run *run);
void note_prior(Run *run, int column);
void learn_step(Run *run);

/* Where to keep what gradients need to know of a column's sample of the channel at hand, or NULL. */
int32_t *find_parts(const Run *run, int column);

/* Keep how far off that sample was predicted, given its parts and the weights before them. */
void note_error(Run *run, int column);

#endif
