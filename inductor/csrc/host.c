/* The module inductor._host: types of programs and graphs, and functions about tensors and memory. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fingerprint.h"
#include "graphs.h"
#include "templates.h"
#include "tensors.h"

static PyObject *data_ptr(PyObject *module, PyObject *tensor)
{
    void *data = NULL;
    (void)module;
    return host_data_ptr(tensor, &data) ? NULL : PyLong_FromVoidPtr(data);
}

/* 16 bytes that tell the contents of tensors apart: fingerprint(tensors, bytes of each). */
static PyObject *fingerprint(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    enum { LARGE = 1 << 19 }; /* bytes that take 20 us, four times what a team of 16 costs */
    Fingerprint f;
    uint64_t out[2];
    (void)module;
    if (n_args != 2 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[1]))
        return PyErr_SetString(PyExc_TypeError, "expected a tuple of tensors and one of their sizes"), NULL;
    fingerprint_start(&f);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); i++) {
        void *data = NULL;
        size_t size = PyLong_AsSize_t(PyTuple_GET_ITEM(args[1], i));
        if (PyErr_Occurred())
            return NULL;
        if (host_data_ptr(PyTuple_GET_ITEM(args[0], i), &data))
            return NULL;
        if (size < LARGE) {
            fingerprint_add(&f, data, size);
            continue;
        }
        Py_BEGIN_ALLOW_THREADS
        fingerprint_add_shared(&f, data, size, host_team(), (unsigned)host_threads());
        Py_END_ALLOW_THREADS
    }
    fingerprint_end(&f, out);
    return PyBytes_FromStringAndSize((const char *)out, sizeof out);
}

static PyObject *object_word(PyObject *module, PyObject *args)
{
    PyObject *object;
    Py_ssize_t offset;
    uint64_t word;
    (void)module;
    if (!PyArg_ParseTuple(args, "On", &object, &offset))
        return NULL;
    if (offset < 0 || offset + 8 > Py_TYPE(object)->tp_basicsize) {
        PyErr_SetString(PyExc_ValueError, "offset outside the object");
        return NULL;
    }
    memcpy(&word, (char *)object + offset, sizeof word);
    return PyLong_FromUnsignedLongLong(word);
}

/* glibc returns the free end of its heap to the kernel when that is larger than a threshold, and the next call faults its results
 * in again, 4 KB at a time. The threshold is twice the largest mapped block that was freed so far, of blocks up to 32 MB: freeing
 * one of that size, which nothing has touched, raises it at once. Thresholds that the user has set do not move; other allocators
 * do nothing here. */
static PyObject *keep_freed_memory(PyObject *module, PyObject *unused)
{
    enum { LARGEST = 32 << 20, HEADER = 1 << 16 };
    void *volatile block = malloc(LARGEST - HEADER); /* volatile: compilers remove a pair of malloc and free */
    (void)module, (void)unused;
    free(block);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"data_ptr", data_ptr, METH_O, "data_ptr(tensor, /)\n--\n\nData pointer of a tensor, read as programs read it."},
    {"fingerprint", (PyCFunction)(void (*)(void))fingerprint, METH_FASTCALL,
     "fingerprint(tensors, sizes, /)\n--\n\n16 bytes that tell the contents of tensors apart."},
    {"keep_freed_memory", keep_freed_memory, METH_NOARGS,
     "keep_freed_memory()\n--\n\nRaise the threshold from which on glibc gives freed memory back."},
    {"object_word", object_word, METH_VARARGS, "object_word(obj, offset, /)\n--\n\nEight bytes of an object at an offset, for finding the handle."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, .m_name = "_host", .m_doc = "The host program.", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__host(void)
{
    if (PyType_Ready(&host_ProgramType) < 0 || PyType_Ready(&host_RefType) < 0 || PyType_Ready(&host_BuildType) < 0 ||
        PyType_Ready(&host_PoolType) < 0 || PyType_Ready(&host_RecordingType) < 0 || PyType_Ready(&host_GraphedType) < 0)
        return NULL;
    if (run_ready() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&module_def);
    PyTypeObject *types[] = {&host_ProgramType, &host_RefType, &host_BuildType, &host_PoolType, &host_RecordingType, &host_GraphedType};
    int bad = !module || PyModule_AddFunctions(module, driver_methods) || PyModule_AddFunctions(module, pool_methods) ||
              PyModule_AddFunctions(module, tensor_methods) || PyModule_AddFunctions(module, run_methods);
    for (size_t i = 0; !bad && i < sizeof types / sizeof *types; i++)
        bad = PyModule_AddType(module, types[i]);
    if (bad) {
        Py_XDECREF(module);
        return NULL;
    }
    host_watch_forks();
    return module;
}
