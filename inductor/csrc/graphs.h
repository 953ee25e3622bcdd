/* Captured CUDA graphs: what a call checks, copies, launches and hands out. inductor/runtime/graphs.py decides when to capture.
 *
 * A graph writes its results where they lay while it was captured, and callers get tensors over that memory. Graphs of a pool share
 * memory for temporaries. So a graph writes to its own results and, as temporaries, to what is free between those of the graphs captured
 * before it; results of graphs captured later may lie there. It is replayed only when all these are dead, which the reference counts of
 * their storages tell. A result that was alive is copied out from then on: `kept`. */
#pragma once
#include "program.h"

typedef struct {
    PyObject *base; /* a tensor over the whole storage */
    char *storage;
    int64_t nbytes, elements, number; /* number: of the graph */
    int dtype, kept, has_owner;
} Result;

typedef struct {
    PyObject_HEAD
    Result **results;
    Py_ssize_t n_results, room;
    int64_t captured;
    uint32_t unused; /* uses of a storage that only its base has */
    void *context, *last_stream, *event;
    int device_type, device_index, has_run;
    int is_busy; /* a thread is between copying inputs and handing results out, and may have let go of the interpreter */
    PyObject *stream_of, *device_number;
} Pool;

typedef struct {
    PyObject_HEAD
    Pool *pool;
    int64_t number;
    void *executable;
    PyObject *keep, *replay, *copy; /* replay: None, or what is called instead of the driver */
    int n_inputs, n_copied, n_outputs, n_results;
    struct Input *inputs;
    struct Output *outputs;
    Result **results;
} Recording;

/* pool.c */
int pool_is_blocked(Pool *pool, int64_t number); /* is something alive where graph `number` writes? forgets the dead that have no graph */
Result *pool_add(Pool *pool, PyObject *spec); /* the base must be all that uses the storage */
PyObject *pool_memory(Pool *pool, Result *result, void *stream); /* what outputs are views of: the result's or a copy, a new reference */
int pool_follow(Pool *pool, void *stream); /* graphs of a pool run one after the other, on whatever streams */
int pool_enter(Pool *pool, void **stream, void **before);
extern PyTypeObject host_PoolType;
extern PyMethodDef pool_methods[];

/* recording.c */
int recording_matches(Recording *r, PyObject **inputs); /* 1, 0, or -1 with an error set */
PyObject *recording_replay(Recording *r, PyObject **inputs, void *stream);
extern PyTypeObject host_RecordingType;

/* graphs.c */
extern PyTypeObject host_GraphedType;
