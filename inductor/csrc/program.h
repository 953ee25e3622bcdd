/* A host program as data: run by run.c, made from Python tuples by program.c, captured in graphs.h. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef void (*Kernel)(char *const *, int);

enum { KERNEL, CALL, EMPTY, VIEW, DROP, CHECK, LAUNCH };

enum { MAX_BUFFERS = 512, MAX_NUMBERS = 8 }; /* parameters of a kernel on a GPU */

typedef struct {
    void *function;
    unsigned shared; /* bytes */
} Form;

typedef struct {
    int kind, slot, from, ndim, dtype, n_out, single, release;
    Kernel kernel;
    int64_t work; /* of a kernel: decides whether it is shared out */
    PyObject *callable, *args; /* templates: Ref stands for the tensor of a slot, Build for a list with Refs inside */
    int *outs;
    int64_t *sizes, *strides, offset, huge; /* huge: bytes that are worth huge pages, or 0 */
    struct Launch *launch;
} Step;

/* A kernel on a GPU. Buffers that begin at 16 bytes go to the first form; `callable` of the step makes others, by which do not. */
typedef struct Launch {
    Form aligned, other;
    uint64_t misaligned; /* bit k: buffer k of `other` */
    unsigned grid[3], threads;
    int n_buffers, n_numbers;
    int *slots;
    int64_t *numbers; /* parameters after the buffers */
    PyObject *name;
} Launch;

/* ndim -1: whatever comes is right. */
typedef struct {
    int ndim, dtype, itemsize;
    int64_t numel; /* 0: gaps between the elements */
    int64_t *sizes, *strides;
} Layout;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int n_slots, n_inputs, n_steps, n_outputs, n_temps, n_constants, n_arena_objects, n_launches;
    int has_torch_steps; /* some step runs an operator or makes a view */
    int owns_inputs;     /* the list of inputs is emptied, so that DROP frees them */
    int has_run;         /* The first run takes small pages: free blocks of 2 MB are those that nobody has used for longest, which a
                          * virtual machine may have given back to its host: 2.4 ms a MB beside 0.6 for 4 KB at a time, once. */
    int *inputs; /* slot of each input, -1 when nothing reads it */
    Step *steps;
    int *outputs; /* slot, or -1 for output_values[i] */
    PyObject *output_values, *constants;
    int *constant_slots, *temp_slots, *arena_object_slots;
    int64_t *temp_offsets;
    Layout *layouts; /* per slot: what results of calls, and the inputs of a backward, must look like */
    int64_t arena_bytes;
    PyObject *make_base, *make_views, *restride, *token; /* token: this program's key in the arenas */
    int device_type, device_index; /* as torch counts them: where results and temporaries are */
    void *context;                 /* of the driver, on a GPU */
    volatile int32_t *flag;        /* on a GPU: where kernels note an index out of range, in memory of the host; NULL when none does */
    PyObject *stream_of, *device_number; /* on a GPU: torch's function from a device's index to its current stream */
    PyObject *keep; /* the loaded library and whatever else must outlive the program */
} Program;

/* run.c */
PyObject *host_run_program(PyObject *program, PyObject *const *args, size_t nargsf, PyObject *kwnames);
void host_forget_views(Program *p);
int host_refuse_index(Program *p); /* raises for what kernels noted, and forgets it; always -1 */
int run_ready(void);
extern PyMethodDef run_methods[];

/* program.c */
extern PyTypeObject host_ProgramType;
int64_t *program_longs(PyObject *tuple); /* to be freed with PyMem_Free */
