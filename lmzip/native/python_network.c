/* make_network: a network's arrays, borrowed from numpy, as the kernels take them. */
#include "network.h"
#include "python_support.h"

#include <stdlib.h>
#include <string.h>

const char *const NETWORK_CAPSULE = "lmzip.native.network";

typedef struct {
    Network network; /* first: a capsule's pointer is the network's */
    Holdings holdings;
} NetworkObject;

static void free_network(NetworkObject *object) {
    release(&object->holdings);
    free(object);
}

static void destroy_network(PyObject *capsule) {
    free_network(PyCapsule_GetPointer(capsule, NETWORK_CAPSULE));
}

static const Kernel *find_kernel(const char *name) {
    for (const Kernel *const *kernel = list_kernels(); *kernel; kernel++)
        if (!strcmp((*kernel)->name, name))
            return *kernel;
    PyErr_Format(PyExc_ValueError, "this processor has no kernel '%s'", name);
    return NULL;
}

/* Read a layer from ((blocks, taps, pairs, skips), weights, shift, half, odd). */
static int read_layer(Holdings *holdings, PyObject *description, Layer *layer) {
    PyObject *sizes, *weights, *shift, *half, *odd;
    int numbers[4];
    if (!description)
        return 0;
    int good = PyArg_ParseTuple(description, "OOOOO", &sizes, &weights, &shift, &half, &odd) &&
               read_integers(sizes, numbers, 4);
    if (good) {
        layer->blocks = numbers[0];
        layer->taps = numbers[1];
        layer->pairs = numbers[2];
        layer->skips = (Skipping)numbers[3];
        const int filled = layer->skips == SKIP_INPUTS ? layer->blocks % 2 : 0;
        size_t outputs = (size_t)layer->blocks * LANES;
        size_t each = (size_t)layer->taps * layer->pairs * 2;
        good = (layer->weights = borrow(holdings, weights, (outputs + filled * LANES) * each, 2, 0)) &&
               (layer->shift = borrow(holdings, shift, outputs, 4, 0)) &&
               (layer->half = borrow(holdings, half, outputs, 4, 0)) &&
               (layer->odd = borrow(holdings, odd, outputs, 4, 0));
    }
    Py_DECREF(description);
    return good;
}

static int read_layers(NetworkObject *object, PyObject *layers) {
    Network *network = &object->network;
    Holdings *holdings = &object->holdings;
    const int depth = network->depth;
    network->convs = allocate(holdings, (size_t)depth, sizeof(Layer));
    network->projects = network->convs ? allocate(holdings, (size_t)depth, sizeof(Layer)) : NULL;
    if (!network->projects || !read_layer(holdings, get_item(layers, 0), &network->first))
        return 0;
    for (int b = 0; b < depth; b++)
        if (!read_layer(holdings, get_item(layers, 1 + 2 * b), &network->convs[b]) ||
            !read_layer(holdings, get_item(layers, 2 + 2 * b), &network->projects[b]))
            return 0;
    return read_layer(holdings, get_item(layers, 1 + 2 * depth), &network->out);
}

static int read_tables(NetworkObject *object, PyObject *tables) {
    Network *network = &object->network;
    PyObject *sizes, *logistic, *inverse_scale, *weight, *log2;
    int numbers[3];
    if (!PyArg_ParseTuple(tables, "OOOOO", &sizes, &logistic, &inverse_scale, &weight, &log2) ||
        !read_integers(sizes, numbers, 3))
        return 0;
    network->inverse_scales = numbers[0];
    network->weights = numbers[1];
    network->log2s = numbers[2];
    Holdings *holdings = &object->holdings;
    return (network->logistic = borrow(holdings, logistic, TABLE_END + 1, 4, 0)) &&
           (network->inverse_scale =
                borrow(holdings, inverse_scale, (size_t)network->inverse_scales, 4, 0)) &&
           (network->weight = borrow(holdings, weight, (size_t)network->weights, 4, 0)) &&
           (network->log2 = borrow(holdings, log2, (size_t)network->log2s, 4, 0));
}

/* make_network(kernel, numbers, layers, predictor, tables) */
PyObject *make_network(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    PyObject *numbers, *layers, *predictor, *tables;
    int n[8];
    if (!PyArg_ParseTuple(args, "sOOOO", &name, &numbers, &layers, &predictor, &tables) ||
        !read_integers(numbers, n, 8))
        return NULL;
    NetworkObject *object = calloc(1, sizeof *object);
    if (!object)
        return PyErr_NoMemory();
    Network *network = &object->network;
    network->channels = n[0];
    network->mixtures = n[1];
    network->depth = n[2];
    network->activation_max = n[3];
    network->stream_max = n[4];
    network->stream_bits = n[5];
    network->predictor_shift = n[6];
    network->fraction_bits = n[7];
    size_t kernels = (size_t)1 << NEIGHBOURS;
    size_t each = (size_t)network->channels * network->channels * NEIGHBOURS;
    PyObject *capsule = NULL;
    if ((network->kernel = find_kernel(name)) && read_layers(object, layers) &&
        read_tables(object, tables) &&
        (network->predictor = borrow(&object->holdings, predictor, kernels * each, 4, 0)))
        capsule = PyCapsule_New(object, NETWORK_CAPSULE, destroy_network);
    if (!capsule)
        free_network(object);
    return capsule;
}
