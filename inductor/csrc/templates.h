/* Templates in the arguments of calls. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    int slot;
} Ref;

typedef struct {
    PyObject_HEAD
    PyObject *items;
    int is_list;
} Build;

extern PyTypeObject host_RefType, host_BuildType;

PyObject *host_materialise(PyObject *item, PyObject **objects); /* a new reference, or NULL with an error set */
