/* The CUDA driver, found when the process runs: nothing of CUDA is needed to build this or to import it. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Pointers to `cells` are what the kernel's parameters are read from. 0, or -1 with an error set that names the kernel. */
int driver_launch(void *function, const unsigned *grid, unsigned threads, unsigned shared, void *stream, void **cells, PyObject *name);

/* Makes a context current on this thread where another one is. `before` is what `driver_leave` puts back: NULL for nothing to do. */
int driver_enter(void *context, void **before);
void driver_leave(void *before);

extern PyMethodDef driver_methods[];
