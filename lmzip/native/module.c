/* The module lmzip.native._kernels: what it offers to lmzip/native/. */
#include "kernel.h"
#include "python_support.h"

/* kernels(): (name, interleaved, skips) of those that this processor can run, best first */
static PyObject *kernels(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (const Kernel *const *kernel = list_kernels(); list && *kernel; kernel++) {
        PyObject *entry = Py_BuildValue("(sOi)", (*kernel)->name,
                                        (*kernel)->interleaved ? Py_True : Py_False,
                                        (int)(*kernel)->skips);
        if (!entry || PyList_Append(list, entry))
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"kernels", kernels, METH_NOARGS, NULL},
    {"make_network", make_network, METH_VARARGS, NULL},
    {"make_run", make_run, METH_VARARGS, NULL},
    {"begin_step", begin_step, METH_VARARGS, NULL},
    {"refine_step", refine_step, METH_VARARGS, NULL},
    {"finish_channel", finish_channel, METH_VARARGS, NULL},
    {"encode_span", encode_span, METH_VARARGS, NULL},
    {"copy_changes", copy_changes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernels",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernels(void);

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
