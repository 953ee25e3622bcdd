/* Facts about one object that run no user code: strict equality, C-level length, the instance dict. */
#include "core.h"

static int frozenset_eq(PyObject *seen, PyObject *expected)
{
    if (PySet_GET_SIZE(seen) != PySet_GET_SIZE(expected))
        return 0;
    PyObject *outer = PyObject_GetIter(seen), *a, *b;
    int ok = outer ? 1 : -1;
    while (ok == 1 && (a = PyIter_Next(outer))) {
        PyObject *inner = PyObject_GetIter(expected);
        ok = inner ? 0 : -1;
        while (ok == 0 && (b = PyIter_Next(inner))) {
            ok = dd_strict_eq(a, b);
            Py_DECREF(b);
        }
        Py_XDECREF(inner);
        Py_DECREF(a);
    }
    Py_XDECREF(outer);
    return PyErr_Occurred() ? -1 : ok;
}

/* Same type and equal; floats bit for bit, tuples and frozensets element for element. 1, 0, or -1 with an error set. */
int dd_strict_eq(PyObject *seen, PyObject *expected)
{
    if (seen == expected)
        return 1;
    if (Py_TYPE(seen) != Py_TYPE(expected))
        return 0;
    if (PyUnicode_CheckExact(seen))
        return PyUnicode_GET_LENGTH(seen) == PyUnicode_GET_LENGTH(expected) && PyUnicode_Compare(seen, expected) == 0;
    if (PyFloat_Check(seen)) { /* numpy.float64 too: the types are equal */
        double a = PyFloat_AS_DOUBLE(seen), b = PyFloat_AS_DOUBLE(expected);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyComplex_Check(seen)) {
        Py_complex a = ((PyComplexObject *)seen)->cval, b = ((PyComplexObject *)expected)->cval;
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyTuple_Check(seen)) {
        if (PyTuple_GET_SIZE(seen) != PyTuple_GET_SIZE(expected))
            return 0;
        if (Py_EnterRecursiveCall(" while comparing a guarded tuple"))
            return -1;
        int ok = 1;
        for (Py_ssize_t i = 0; ok == 1 && i < PyTuple_GET_SIZE(seen); i++)
            ok = dd_strict_eq(PyTuple_GET_ITEM(seen, i), PyTuple_GET_ITEM(expected, i));
        Py_LeaveRecursiveCall();
        return ok;
    }
    if (PyFrozenSet_CheckExact(seen))
        return frozenset_eq(seen, expected);
    if (PySlice_Check(seen)) {
        PySliceObject *a = (PySliceObject *)seen, *b = (PySliceObject *)expected;
        int ok = dd_strict_eq(a->start, b->start);
        ok = ok == 1 ? dd_strict_eq(a->stop, b->stop) : ok;
        return ok == 1 ? dd_strict_eq(a->step, b->step) : ok;
    }
    return PyObject_RichCompareBool(seen, expected, Py_EQ);
}

/* The instance dict, borrowed, or NULL (no error). Objects that keep their values inline get their dict made, as `obj.__dict__` does. */
PyObject *dd_inst_dict(PyObject *obj)
{
    PyObject **slot = _PyObject_GetDictPtr(obj);
    if (!slot) {
        PyErr_Clear();
        return NULL;
    }
    return *slot;
}

/* Length without user code, -1 (no error) if the object has none. */
Py_ssize_t dd_length(PyObject *obj)
{
    if (PyList_Check(obj) || PyTuple_Check(obj))
        return Py_SIZE(obj);
    if (PyDict_Check(obj))
        return ((PyDictObject *)obj)->ma_used;
    if (PyUnicode_Check(obj))
        return PyUnicode_GET_LENGTH(obj);
    if (PyAnySet_Check(obj))
        return PySet_GET_SIZE(obj);
    if (PyBytes_Check(obj) || PyByteArray_Check(obj))
        return Py_SIZE(obj);
    PyTypeObject *type = Py_TYPE(obj); /* deque, range, array: the slot of a type that Python can't change is C code */
    while (!(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE))
        type = type->tp_base;
    Py_ssize_t n = type->tp_as_sequence && type->tp_as_sequence->sq_length ? type->tp_as_sequence->sq_length(obj) : -1;
    if (n < 0)
        PyErr_Clear();
    return n;
}
