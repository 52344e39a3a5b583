/* What the parts of the module share: Python's limited interface, borrowed buffers, owned memory. */
#ifndef LMZIP_PYTHON_SUPPORT_H
#define LMZIP_PYTHON_SUPPORT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* What an object borrows and owns until it is freed: buffers of Python objects, and memory. */
typedef struct {
    Py_buffer *buffers;
    void **blocks;
    int buffer_count, block_count;
} Holdings;

/* Borrow the memory of an object that holds exactly `items` of `size` bytes, or NULL with an error.
 * No buffer may have more than 2^31 - 1 items along a side, as the engine's indices are 32 bits. */
void *borrow(Holdings *holdings, PyObject *object, size_t items, size_t size, int writable);

/* Get zeroed memory on a cache line's boundary, or NULL with an error. */
void *allocate(Holdings *holdings, size_t items, size_t size);

void release(Holdings *holdings);

/* Read `count` integers of a tuple; 0 with an error unless it is one of that many. */
int read_integers(PyObject *tuple, int *into, int count);

/* Return an item of a tuple or list as a new reference, or NULL with an error. */
PyObject *get_item(PyObject *sequence, Py_ssize_t index);

PyObject *make_network(PyObject *self, PyObject *args);
PyObject *make_run(PyObject *self, PyObject *args);
PyObject *begin_step(PyObject *self, PyObject *args);
PyObject *refine_step(PyObject *self, PyObject *args);
PyObject *finish_channel(PyObject *self, PyObject *args);
PyObject *encode_span(PyObject *self, PyObject *args);
PyObject *copy_changes(PyObject *self, PyObject *args);

extern const char *const NETWORK_CAPSULE;

#endif
