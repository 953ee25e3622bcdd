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

/* The rest is called with the device's context current. 0, or -1 with an error set. The interpreter lock stays held: another thread that
 * replayed a graph in between would write over inputs that are copied already. */
int driver_launch_graph(void *executable, void *stream);
int driver_copy(void *to, void *from, size_t nbytes, void *stream);

/* What is put into `stream` from now on waits for all that is in `earlier`. `event` is made when it is NULL. */
int driver_follow(void **event, void *earlier, void *stream);
void driver_forget_event(void *event);

/* Whether launches on a stream are recorded instead of run. */
int driver_is_capturing(void *stream);

extern PyMethodDef driver_methods[];
