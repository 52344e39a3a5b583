/* Borrowed buffers and owned memory. */
#include "python_support.h"

#include <stdlib.h>

enum { CACHE_LINE = 64 };

static int grow(void **list, int count, size_t size) {
    void *grown = realloc(*list, ((size_t)count + 1) * size);
    if (!grown) {
        PyErr_NoMemory();
        return 0;
    }
    *list = grown;
    return 1;
}

void *borrow(Holdings *holdings, PyObject *object, size_t items, size_t size, int writable) {
    if (!grow((void **)&holdings->buffers, holdings->buffer_count, sizeof(Py_buffer)))
        return NULL;
    Py_buffer *view = holdings->buffers + holdings->buffer_count;
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        return NULL;
    holdings->buffer_count++;
    if ((size_t)view->len != items * size) {
        PyErr_Format(PyExc_ValueError, "a buffer has %zd bytes, not %zd", view->len,
                     (Py_ssize_t)(items * size));
        return NULL;
    }
    static int64_t nothing;
    return items ? view->buf : &nothing; /* never NULL */
}

void *allocate(Holdings *holdings, size_t items, size_t size) {
    if (!grow((void **)&holdings->blocks, holdings->block_count, sizeof(void *)))
        return NULL;
    char *block = calloc(items * size + CACHE_LINE, 1);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    holdings->blocks[holdings->block_count++] = block;
    return block + (CACHE_LINE - (uintptr_t)block % CACHE_LINE);
}

void release(Holdings *holdings) {
    for (int i = 0; i < holdings->buffer_count; i++)
        PyBuffer_Release(&holdings->buffers[i]);
    for (int i = 0; i < holdings->block_count; i++)
        free(holdings->blocks[i]);
    free(holdings->buffers);
    free(holdings->blocks);
}

int read_integers(PyObject *tuple, int *into, int count) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count) {
        PyErr_Format(PyExc_ValueError, "expected a tuple of %d integers", count);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        long value = PyLong_AsLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred())
            return 0;
        if (value < -INT32_MAX || value > INT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a number does not fit 32 bits");
            return 0;
        }
        into[i] = (int)value;
    }
    return 1;
}

PyObject *get_item(PyObject *sequence, Py_ssize_t index) {
    return PySequence_GetItem(sequence, index);
}
