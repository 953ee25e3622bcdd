/* Which arguments of a compiled graph are one tensor, and which show the same memory. An optimizer's step has thousands. */
#include "core.h"

typedef struct {
    uintptr_t key;
    int32_t first;
} Seen;

static PyObject *plain_types[2]; /* Tensor, Parameter: their storage is what TensorImpl says */

static int know_types(void)
{
    if (plain_types[1])
        return 0;
    PyObject *torch = PyImport_ImportModule("torch"), *nn = torch ? PyImport_ImportModule("torch.nn") : NULL;
    PyObject *tensor = nn ? PyObject_GetAttrString(torch, "Tensor") : NULL, *parameter = tensor ? PyObject_GetAttrString(nn, "Parameter") : NULL;
    Py_XDECREF(torch);
    Py_XDECREF(nn);
    if (!parameter) {
        Py_XDECREF(tensor);
        return -1;
    }
    plain_types[0] = tensor;
    plain_types[1] = parameter;
    return 0;
}

/* The position at which the key was first seen: `position` for a new one. The table has room. */
static int32_t first_of(Seen *table, size_t mask, uintptr_t key, int32_t position)
{
    size_t at = (size_t)((key >> 4) * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (table[at].key && table[at].key != key)
        at = (at + 1) & mask;
    if (!table[at].key) {
        table[at].key = key;
        table[at].first = position;
    }
    return table[at].first;
}

/* The address of what holds a tensor's memory; 0 with an error. Subclasses are asked: what they show need not be their own. */
static uintptr_t storage_of(PyObject *tensor)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    bool is_plain = type == plain_types[0] || type == plain_types[1];
    uintptr_t known = is_plain && dd_layout.raw == 1 && dd_layout.storage >= 0 ? dd_storage_of(tensor) : 0;
    if (known)
        return known;
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyObject *address = storage ? PyObject_GetAttrString(storage, "_cdata") : NULL;
    known = address ? (uintptr_t)PyLong_AsVoidPtr(address) : 0;
    if (!known && !PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "a tensor has no storage");
    Py_XDECREF(storage);
    Py_XDECREF(address);
    return known;
}

/* The number of positions written to `pairs`; -1 with an error. */
static Py_ssize_t fill(PyObject *args, Seen *table, size_t mask, int32_t *pairs)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i);
        if (!PyObject_TypeCheck(arg, (PyTypeObject *)plain_types[0]))
            continue;
        uintptr_t storage = storage_of(arg);
        if (!storage)
            return -1;
        pairs[count++] = first_of(table, mask, storage, (int32_t)i);
        pairs[count++] = first_of(table, mask, (uintptr_t)arg | 1, (int32_t)i);
    }
    return count;
}

PyObject *dd_sharing(PyObject *Py_UNUSED(mod), PyObject *args)
{
    size_t room = 16;
    Py_ssize_t count;
    if (!PyTuple_Check(args))
        return PyErr_SetString(PyExc_TypeError, "expected a tuple"), NULL;
    if (know_types() < 0 || dd_layout_ready() < 0)
        return NULL;
    while (room < 4 * (size_t)PyTuple_GET_SIZE(args))
        room *= 2;
    Seen *table = PyMem_Calloc(room, sizeof(Seen));
    int32_t *pairs = PyMem_Malloc(2 * sizeof(int32_t) * ((size_t)PyTuple_GET_SIZE(args) + 1));
    PyObject *found = NULL;
    if (!table || !pairs)
        PyErr_NoMemory();
    else if ((count = fill(args, table, room - 1, pairs)) >= 0)
        found = PyBytes_FromStringAndSize((const char *)pairs, count * (Py_ssize_t)sizeof(int32_t));
    PyMem_Free(table);
    PyMem_Free(pairs);
    return found;
}
