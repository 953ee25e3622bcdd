/* What reaches libtorch. 0 or a new reference, or -1 or NULL with an error set. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "fingerprint.h"

int host_data_ptr(PyObject *tensor, void **data);
int host_strides(PyObject *tensor, int64_t **strides);
PyObject *host_empty(int ndim, const int64_t *sizes, const int64_t *strides, int dtype, int device_type, int device_index);
PyObject *host_view(PyObject *base, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
PyObject *host_enter_guard(void); /* switches autograd and autocast dispatch off until `host_leave_guard` */
void host_leave_guard(PyObject *guard);
int host_threads(void); /* of a kernel's team */
Team host_team(void);   /* NULL: torch has another thread pool than OpenMP's */
void host_watch_forks(void);
extern PyMethodDef tensor_methods[];
