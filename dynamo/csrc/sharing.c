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

static bool is_constant(PyObject *arg)
{
    return arg == Py_None || PyBool_Check(arg) || PyLong_CheckExact(arg) || PyFloat_CheckExact(arg) || PyUnicode_CheckExact(arg);
}

/* False: an argument is neither a plain tensor nor a constant. */
static bool fill(PyObject *args, Seen *table, size_t mask, int32_t *pairs, Py_ssize_t *count)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i), *type = (PyObject *)Py_TYPE(arg);
        if (type != plain_types[0] && type != plain_types[1]) {
            if (!is_constant(arg))
                return false;
            continue;
        }
        uintptr_t storage = dd_storage_of(arg);
        if (!storage)
            return false;
        pairs[(*count)++] = first_of(table, mask, storage, (int32_t)i);
        pairs[(*count)++] = first_of(table, mask, (uintptr_t)arg | 1, (int32_t)i);
    }
    return true;
}

PyObject *dd_sharing(PyObject *Py_UNUSED(mod), PyObject *args)
{
    size_t room = 16;
    Py_ssize_t count = 0;
    if (!PyTuple_Check(args))
        return PyErr_SetString(PyExc_TypeError, "expected a tuple"), NULL;
    if (know_types() < 0 || dd_layout_ready() < 0)
        return NULL;
    if (dd_layout.raw != 1 || dd_layout.storage < 0)
        Py_RETURN_NONE;
    while (room < 4 * (size_t)PyTuple_GET_SIZE(args))
        room *= 2;
    Seen *table = PyMem_Calloc(room, sizeof(Seen));
    int32_t *pairs = PyMem_Malloc(2 * sizeof(int32_t) * ((size_t)PyTuple_GET_SIZE(args) + 1));
    PyObject *found = NULL;
    if (!table || !pairs)
        PyErr_NoMemory();
    else if (fill(args, table, room - 1, pairs, &count))
        found = PyBytes_FromStringAndSize((const char *)pairs, count * (Py_ssize_t)sizeof(int32_t));
    else
        found = Py_NewRef(Py_None);
    PyMem_Free(table);
    PyMem_Free(pairs);
    return found;
}
