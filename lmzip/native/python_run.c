/* make_run: the arrays of a schedule, borrowed, and the memory of one evaluation; and its steps.
 *
 * The functions that compute let go of Python's lock while they do, unless they are over at once.
 */
#include "adaptation.h"
#include "network.h"
#include "python_support.h"

#include <stdlib.h>
#include <string.h>

static const char *const RUN_CAPSULE = "lmzip.native.run";

enum { AT_ONCE = 8 }; /* columns whose mixture takes less time than letting go of the lock may */

typedef struct {
    Run run;
    Holdings holdings;
    PyObject *network; /* keeps it alive */
    int columns;       /* room for so many */
    float *frequencies;
    Deep deep;
    Adaptation adaptation;
} RunObject;

static void free_run(RunObject *object) {
    release(&object->holdings);
    Py_XDECREF(object->network);
    free(object);
}

static void destroy_run(PyObject *capsule) {
    free_run(PyCapsule_GetPointer(capsule, RUN_CAPSULE));
}

/* Read a view from ((used, patterns), taps, places, pattern), and return its number of patterns. */
static int read_view(RunObject *object, PyObject *description, View *view) {
    PyObject *sizes, *taps, *places, *pattern;
    int numbers[2] = {0, 0};
    if (!description)
        return 0;
    int good = PyArg_ParseTuple(description, "OOOO", &sizes, &taps, &places, &pattern) &&
               read_integers(sizes, numbers, 2);
    if (good) {
        size_t used = (size_t)(view->used = numbers[0]), pixels = (size_t)object->run.pixels;
        Holdings *holdings = &object->holdings;
        good = (view->taps = borrow(holdings, taps, used, 4, 0)) &&
               (view->places = borrow(holdings, places, used * pixels, 4, 0)) &&
               (view->pattern = borrow(holdings, pattern, pixels, 4, 0)) &&
               (view->at = allocate(holdings, used * object->columns, 4));
    }
    Py_DECREF(description);
    return good ? numbers[1] : 0;
}

/* Borrow item `index` of `bases`: where the sums of a layer start, for each pattern. */
static const int32_t *read_bases(RunObject *object, PyObject *bases, int index, const Layer *layer,
                                 int patterns) {
    PyObject *item = get_item(bases, index);
    const int32_t *found = NULL;
    if (item)
        found = borrow(&object->holdings, item, (size_t)patterns * layer->blocks * LANES, 4, 0);
    Py_XDECREF(item);
    return found;
}

static int read_views(RunObject *object, PyObject *views, PyObject *view_of, PyObject *bases) {
    Run *run = &object->run;
    const Network *network = run->network;
    Holdings *holdings = &object->holdings;
    const int depth = network->depth;
    Py_ssize_t count = PySequence_Size(views);
    if (count < 1)
        return 0;
    run->view_count = (int)count - 1;
    run->views = allocate(holdings, (size_t)count, sizeof(View));
    run->conv_bases = allocate(holdings, (size_t)depth, sizeof(int32_t *));
    run->project_bases = allocate(holdings, (size_t)depth, sizeof(int32_t *));
    int *patterns = allocate(holdings, (size_t)count, sizeof(int));
    if (!run->views || !run->conv_bases || !run->project_bases || !patterns)
        return 0;
    int of_first = read_view(object, get_item(views, 0), &run->first);
    if (!of_first || !(run->view_of = borrow(holdings, view_of, (size_t)depth, 4, 0)) ||
        !(run->first_bases = read_bases(object, bases, 0, &network->first, of_first)))
        return 0;
    for (int v = 0; v < run->view_count; v++)
        if (!(patterns[v] = read_view(object, get_item(views, v + 1), &run->views[v])))
            return 0;
    for (int b = 0; b < depth; b++) {
        int view = run->view_of[b];
        if (view < 0 || view >= run->view_count) {
            PyErr_SetString(PyExc_ValueError, "a block has no view");
            return 0;
        }
        const Layer *conv = &network->convs[b], *project = &network->projects[b];
        if (!(run->conv_bases[b] = read_bases(object, bases, 1 + 2 * b, conv, patterns[view])) ||
            !(run->project_bases[b] = read_bases(object, bases, 2 + 2 * b, project, 1)))
            return 0;
    }
    run->out_bases = read_bases(object, bases, 1 + 2 * depth, &network->out, 1);
    return run->out_bases != NULL;
}

/* Get the memory of a run. Rows of zeros, which hidden taps see, follow those of pixels and rings;
 * whole blocks are read of the outputs. */
static int make_room(RunObject *object) {
    Run *run = &object->run;
    const Network *network = run->network;
    Holdings *holdings = &object->holdings;
    const size_t n = (size_t)object->columns, images = (size_t)run->images;
    const size_t width = (size_t)network->first.blocks * LANES, mixtures = network->mixtures;
    size_t widest = 0;
    run->room = (network->mixtures + LANES - 1) / LANES * LANES;
    for (int b = 0; b < network->depth; b++)
        if ((size_t)network->convs[b].blocks * LANES > widest)
            widest = (size_t)network->convs[b].blocks * LANES;
    run->rings = allocate(holdings, (size_t)network->depth, sizeof(int16_t *));
    if (!run->rings)
        return 0;
    for (int b = 0; b < network->depth; b++)
        if (!(run->rings[b] = allocate(holdings, (run->ring * images + 1) * width, 2)))
            return 0;
    if (!(run->pixel_rows =
              allocate(holdings, (run->pixels * images + 1) * pixel_stride(network), 2)) ||
        !(run->stream = allocate(holdings, n * width, 4)) ||
        !(run->active = allocate(holdings, n * width, 2)) ||
        !(run->hidden = allocate(holdings, n * widest, 2)) ||
        !(run->outputs = allocate(holdings, n * network->out.blocks * LANES + LANES, 4)) ||
        !(run->around = allocate(holdings, (size_t)NEIGHBOURS * network->channels, 4)) ||
        !(run->place = allocate(holdings, n, 4)) || !(run->image = allocate(holdings, n, 4)) ||
        !(run->own = allocate(holdings, n, 4)) || !(run->each = allocate(holdings, n, 4)) ||
        !(run->weight = allocate(holdings, n * run->room, 4)) ||
        !(run->scale = allocate(holdings, n * run->room, 4)) ||
        !(run->zero = allocate(holdings, n * run->room, 4)) ||
        !(run->high_cdf = allocate(holdings, n * (NIBBLES + 1), 4)) ||
        !(run->taken = allocate(holdings, n, 4)) ||
        !(run->seen = allocate(holdings, n * network->channels, 4)) ||
        !(run->weighed = allocate(holdings, run->room, 4)) ||
        !(run->values = allocate(holdings, mixtures, 8)))
        return 0;
    if (run->deep && (!(run->deep->ends = allocate(holdings, n * (NIBBLES + 1), 8)) ||
                      !(run->deep->agreed = allocate(holdings, n * run->coded, 4)) ||
                      !(run->deep->limit = allocate(holdings, n * run->room, 4))))
        return 0;
    for (size_t i = 0; i < n; i++)
        run->each[i] = (uint32_t)i;
    return 1;
}

/* Read what deep samples need from ((depth, symbols, sharpness, flatness, around), boundaries,
 * around), or None. */
static int read_deep(RunObject *object, PyObject *description) {
    PyObject *sizes, *boundaries, *around;
    Run *run = &object->run;
    Deep *deep = &object->deep;
    int n[5];
    run->symbols = 2;
    if (description == Py_None)
        return 1;
    if (!PyArg_ParseTuple(description, "OOO", &sizes, &boundaries, &around) ||
        !read_integers(sizes, n, 5))
        return 0;
    if (n[0] < 1 || n[0] > 4 * n[1] || n[1] > MOST_SYMBOLS) {
        PyErr_SetString(PyExc_ValueError, "samples have up to four nibbles");
        return 0;
    }
    run->deep = deep;
    deep->depth = n[0];
    run->symbols = n[1];
    deep->sharpness = n[2];
    deep->flatness = n[3];
    deep->around_used = n[4];
    Holdings *holdings = &object->holdings;
    size_t places = (size_t)run->pixels * deep->around_used;
    return (deep->boundaries = borrow(holdings, boundaries, ((size_t)1 << n[0]) + 1, 4, 0)) &&
           (deep->around = borrow(holdings, around, places, 4, 0));
}

static int read_run(RunObject *object, PyObject *args) {
    PyObject *sizes, *groups, *views, *view_of, *bases, *sets, *predictor_taps, *frequencies;
    PyObject *samples, *deep, *manner;
    int n[7];
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOO", &object->network, &sizes, &groups, &views, &view_of,
                          &bases, &sets, &predictor_taps, &frequencies, &samples, &deep, &manner)) {
        object->network = NULL;
        return 0;
    }
    Py_INCREF(object->network);
    Run *run = &object->run;
    Holdings *holdings = &object->holdings;
    run->network = PyCapsule_GetPointer(object->network, NETWORK_CAPSULE);
    if (!run->network || !read_integers(sizes, n, 7))
        return 0;
    run->pixels = n[0];
    run->images = n[1];
    run->groups = n[2];
    run->coded = n[3];
    run->ring = n[4];
    const int64_t columns = (int64_t)n[5] * n[1];
    if (columns > INT32_MAX || ((int64_t)run->pixels + 1) * run->images > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "too many pixels at once");
        return 0;
    }
    object->columns = (int)columns;
    if (!read_deep(object, deep))
        return 0;
    size_t all = (size_t)run->pixels * run->images * run->coded, size = run->deep ? 2 : 1;
    if (!(run->samples = borrow(holdings, samples, all, size, frequencies != Py_None)))
        return 0;
    if (frequencies != Py_None && !(object->frequencies = borrow(holdings, frequencies,
                                                                 columns * NIBBLES, 4, 1)))
        return 0;
    return (run->group_sizes = borrow(holdings, groups, (size_t)run->groups, 4, 0)) &&
           (run->sets = borrow(holdings, sets, (size_t)n[6], 4, 0)) &&
           (run->predictor_taps = borrow(holdings, predictor_taps, NEIGHBOURS, 4, 0)) &&
           read_views(object, views, view_of, bases) && make_room(object) &&
           (manner == Py_None ||
            make_adaptation(run, holdings, &object->adaptation, (size_t)columns, manner));
}

/* make_run(network, (pixels, images, groups, coded, ring, span, patterns), groups, views, view_of, bases,
 *          sets, predictor_taps, frequencies or None, samples, deep or None, manner or None) */
PyObject *make_run(PyObject *self, PyObject *args) {
    (void)self;
    RunObject *object = calloc(1, sizeof *object);
    if (!object)
        return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_run(object, args))
        capsule = PyCapsule_New(object, RUN_CAPSULE, destroy_run);
    if (!capsule)
        free_run(object);
    return capsule;
}

static int check_range(const RunObject *object, int start, int stop) {
    if (0 <= start && start < stop && stop <= object->run.pixels &&
        (int64_t)(stop - start) * object->run.images <= object->columns)
        return 1;
    PyErr_SetString(PyExc_ValueError, "there is no room for this range");
    return 0;
}

static void give_frequencies(RunObject *object) {
    if (object->run.deep)
        find_deep_frequencies(&object->run, object->frequencies);
    else
        find_frequencies(&object->run, object->frequencies);
}

/* copy_changes(run, room): copy what adaptation has changed so far, [feature, then the constant][output],
 * whole blocks of either; not what it has learnt from errors. */
PyObject *copy_changes(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *room;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &room))
        return NULL;
    const RunObject *object = PyCapsule_GetPointer(capsule, RUN_CAPSULE);
    if (!object)
        return NULL;
    if (!object->run.adaptation) {
        PyErr_SetString(PyExc_ValueError, "this run does not adapt");
        return NULL;
    }
    const Learner *learner = &object->adaptation.learner;
    const size_t outputs = (size_t)learner->blocks * LANES, constant = learner->features * outputs;
    const size_t features = (size_t)object->run.network->first.blocks * LANES * outputs;
    Holdings holdings = {NULL, NULL, 0, 0};
    int32_t *to = borrow(&holdings, room, features + outputs, 4, 1);
    if (to) {
        memcpy(to, learner->changes, features * sizeof *to);
        memcpy(to + features, learner->changes + constant, outputs * sizeof *to);
    }
    release(&holdings);
    if (!to)
        return NULL;
    Py_RETURN_NONE;
}

/* begin_step(run, start, stop): evaluate the network and give the frequencies of the first channel's
 * first nibbles. */
PyObject *begin_step(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    int start, stop;
    if (!PyArg_ParseTuple(args, "Oii", &capsule, &start, &stop))
        return NULL;
    RunObject *object = PyCapsule_GetPointer(capsule, RUN_CAPSULE);
    if (!object || !check_range(object, start, stop))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    take_columns(&object->run, start, stop);
    evaluate(&object->run);
    begin_mixture(&object->run);
    give_frequencies(object);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Whether nibbles may be taken now: the last ones of a sample, or others. */
static int check_turn(const Run *run, int last) {
    if (run->channel < run->coded && (run->symbol + 1 == run->symbols) == last)
        return 1;
    PyErr_SetString(PyExc_ValueError, last ? "these cannot be the last nibbles of a sample"
                                           : "a sample has no more nibbles");
    return 0;
}

/* Take the symbols of the columns at hand, 32 bits each. */
static RunObject *take_symbols(PyObject *args, Py_buffer *symbols, int last) {
    PyObject *capsule, *given;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &given))
        return NULL;
    RunObject *object = PyCapsule_GetPointer(capsule, RUN_CAPSULE);
    if (!object || !check_turn(&object->run, last) ||
        PyObject_GetBuffer(given, symbols, PyBUF_SIMPLE))
        return NULL;
    int good = symbols->len == (Py_ssize_t)object->run.n * 4;
    for (int i = 0; good && i < object->run.n; i++)
        good = ((const uint32_t *)symbols->buf)[i] < NIBBLES;
    if (good)
        return object;
    PyBuffer_Release(symbols);
    PyErr_SetString(PyExc_ValueError, "expected a nibble for each column");
    return NULL;
}

/* refine_step(run, nibbles): take nibbles and give the frequencies of the next ones. */
PyObject *refine_step(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer symbols;
    RunObject *object = take_symbols(args, &symbols, 0);
    if (!object)
        return NULL;
    PyThreadState *state = object->run.n > AT_ONCE ? PyEval_SaveThread() : NULL;
    take_nibbles(&object->run, symbols.buf);
    give_frequencies(object);
    if (state)
        PyEval_RestoreThread(state);
    PyBuffer_Release(&symbols);
    Py_RETURN_NONE;
}

static void put_sample(Run *run, size_t index, int sample) {
    if (run->deep)
        ((uint16_t *)run->samples)[index] = (uint16_t)sample;
    else
        ((uint8_t *)run->samples)[index] = (uint8_t)sample;
}

static void take_last(RunObject *object, const int32_t *nibbles) {
    Run *run = &object->run;
    const int more = run->channel + 1 < run->coded;
    take_nibbles(run, nibbles);
    for (int i = 0; i < run->n; i++) {
        size_t column = (size_t)run->place[i] * run->images + run->image[i];
        put_sample(run, column * run->coded + run->channel, run->taken[i]);
        observe(run, i, run->taken[i], more);
    }
    run->channel++;
    run->symbol = 0;
    if (more) {
        give_frequencies(object);
        return;
    }
    if (run->adaptation)
        learn_step(run);
    write_pixels(run);
}

/* finish_channel(run, nibbles): take the last nibbles; give the frequencies of the next channel's
 * first ones, or after the last channel store the pixels. */
PyObject *finish_channel(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer symbols;
    RunObject *object = take_symbols(args, &symbols, 1);
    if (!object)
        return NULL;
    PyThreadState *state = object->run.n > AT_ONCE ? PyEval_SaveThread() : NULL;
    take_last(object, symbols.buf);
    if (state)
        PyEval_RestoreThread(state);
    PyBuffer_Release(&symbols);
    Py_RETURN_NONE;
}

/* Where the symbols of a stream lie: FORMAT.md, "Streams". */
typedef struct {
    const int32_t *starts; /* of the steps, and the end of the last one */
    int steps;
    int32_t *ends[2];      /* left and right */
    int64_t *costs;        /* [place][image][channel] */
} Symbols;

/* Find the step of a place. */
static const int32_t *find_step(const Symbols *symbols, int place) {
    int first = 0, after = symbols->steps;
    while (after - first > 1) {
        int middle = first + (after - first) / 2;
        if (symbols->starts[middle] <= place)
            first = middle;
        else
            after = middle;
    }
    return symbols->starts + first;
}

static void find_symbols(Run *run, const Symbols *symbols) {
    const size_t kinds = (size_t)run->coded * run->symbols;
    size_t of_group = 0; /* symbols of the groups before */
    int column = 0, first = 0;
    for (int g = 0; g < run->groups; g++) {
        const size_t size = (size_t)run->group_sizes[g];
        const int32_t *step = find_step(symbols, run->start);
        for (int place = run->start; place < run->stop; place++) {
            while (step[1] <= place)
                step++;
            const size_t start = (size_t)step[0], length = (size_t)(step[1] - step[0]);
            for (size_t i = 0; i < size; i++, column++) {
                size_t sample = (place * (size_t)run->images + first + i) * run->coded;
                for (run->channel = 0; run->channel < run->coded; run->channel++, sample++) {
                    const int found = get_sample(run, sample);
                    int32_t ends[2 * MOST_SYMBOLS];
                    (run->deep ? find_deep_intervals : find_intervals)(run, column, found, ends,
                                                                       &symbols->costs[sample]);
                    for (int nibble = 0; nibble < run->symbols; nibble++) {
                        size_t kind = (size_t)run->channel * run->symbols + nibble;
                        size_t at = kinds * start + kind * length + (place - start);
                        for (int side = 0; side < 2; side++)
                            symbols->ends[side][of_group + at * size + i] = ends[2 * nibble + side];
                    }
                    observe(run, column, found, run->channel + 1 < run->coded);
                }
            }
        }
        of_group += kinds * run->pixels * size;
        first += (int)size;
    }
}

/* encode_span(run, start, stop, starts, left, right, costs): find the intervals of all symbols of
 * places start..stop, each group's in the sequence of its stream, and what the samples cost. */
PyObject *encode_span(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *starts, *left, *right, *costs;
    int start, stop;
    Symbols symbols;
    if (!PyArg_ParseTuple(args, "OiiiOOOO", &capsule, &start, &stop, &symbols.steps, &starts, &left,
                          &right, &costs))
        return NULL;
    RunObject *object = PyCapsule_GetPointer(capsule, RUN_CAPSULE);
    if (!object || !check_range(object, start, stop))
        return NULL;
    Run *run = &object->run;
    const size_t all = (size_t)run->pixels * run->images * run->coded;
    Holdings holdings = {NULL, NULL, 0, 0};
    int good = (symbols.starts = borrow(&holdings, starts, (size_t)symbols.steps + 1, 4, 0)) &&
               (symbols.ends[0] = borrow(&holdings, left, run->symbols * all, 4, 1)) &&
               (symbols.ends[1] = borrow(&holdings, right, run->symbols * all, 4, 1)) &&
               (symbols.costs = borrow(&holdings, costs, all, 8, 1));
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        take_columns(run, start, stop);
        write_pixels(run);
        evaluate(run);
        begin_mixture(run);
        find_symbols(run, &symbols);
        if (run->adaptation) /* the span is a step */
            learn_step(run);
        Py_END_ALLOW_THREADS
    }
    release(&holdings);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}
