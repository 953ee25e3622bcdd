/* Captured CUDA graphs: what a call checks, copies, launches and hands out. inductor/runtime/graphs.py decides when to capture.
 *
 * A graph writes its results where they lay while it was captured, and callers get tensors over that memory. Graphs of a pool share
 * memory for temporaries. So a graph writes to its own results and, as temporaries, to what is free between those of the graphs captured
 * before it; results of graphs captured later may lie there. It is replayed only when all these are dead, which the reference counts of
 * their storages tell. A result that was alive is copied out from then on: `kept`. */
#include "driver.h"
#include "program.h"
#include "tensors.h"
#include <stddef.h>

enum { UNREAD, FIXED, COPIED };      /* inputs: not looked at, at one address, copied into a buffer */
enum { RESULT, VALUE, INPUT };       /* outputs: over a result, one object for all calls, a view of an input */
enum { FEW = 3 };                    /* inputs up to which single copies cost the host less than one for all */
enum { USES = 8 };                   /* where a storage has its reference count: behind the pointer to its virtual functions */

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
    int kind, ndim;
    void *address;
    PyObject *buffer;
    int64_t nbytes, *strides; /* strides: NULL where no caller has others */
} Input;

typedef struct {
    int kind, index, ndim; /* ndim -1: the input itself */
    int64_t *sizes, *strides, offset;
    PyObject *value;
} Output;

typedef struct {
    PyObject_HEAD
    Pool *pool;
    int64_t number;
    void *executable;
    PyObject *keep, *replay, *copy; /* replay: None, or what is called instead of the driver */
    int n_inputs, n_copied, n_outputs, n_results;
    Input *inputs;
    Output *outputs;
    Result **results;
} Recording;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *program, *recordings, *otherwise;
    Pool *pool;
    int owns_inputs, is_below_autograd, lays_out_inputs;
} Graphed;

static uint32_t uses(const char *storage) { return *(const volatile uint32_t *)(storage + USES); }

/* --- pools --- */

static void forget_result(Pool *pool, Py_ssize_t at)
{
    Result *r = pool->results[at];
    pool->n_results--;
    memmove(pool->results + at, pool->results + at + 1, sizeof(Result *) * (size_t)(pool->n_results - at));
    Py_DECREF(r->base);
    PyMem_Free(r);
}

/* Whether something is alive where graph `number` writes. What has no graph any more and is dead is forgotten. */
static int is_blocked(Pool *pool, int64_t number)
{
    int blocked = 0;
    for (Py_ssize_t i = pool->n_results - 1; i >= 0; i--) {
        Result *r = pool->results[i];
        int alive = uses(r->storage) > pool->unused;
        if (!alive && !r->has_owner) {
            forget_result(pool, i);
        } else if (alive && r->number >= number) {
            r->kept = 1;
            blocked = 1;
        }
    }
    return blocked;
}

static PyObject *Pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long context;
    unsigned unused;
    int device_type, device_index;
    PyObject *stream_of;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "iiKOI", &device_type, &device_index, &context, &stream_of, &unused))
        return NULL;
    Pool *pool = (Pool *)type->tp_alloc(type, 0);
    if (!pool)
        return NULL;
    pool->device_type = device_type;
    pool->device_index = device_index;
    pool->context = (void *)(uintptr_t)context;
    pool->unused = unused;
    pool->stream_of = Py_NewRef(stream_of);
    pool->device_number = PyLong_FromLong(device_index);
    return (PyObject *)pool;
}

static void Pool_dealloc(Pool *pool)
{
    while (pool->n_results)
        forget_result(pool, pool->n_results - 1);
    PyMem_Free(pool->results);
    if (pool->event)
        driver_forget_event(pool->event);
    Py_XDECREF(pool->stream_of);
    Py_XDECREF(pool->device_number);
    Py_TYPE(pool)->tp_free((PyObject *)pool);
}

static PyObject *Pool_owns(Pool *pool, PyObject *number)
{
    char *storage = PyLong_AsVoidPtr(number);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < pool->n_results; i++)
        if (pool->results[i]->storage == storage)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

static PyMethodDef Pool_methods[] = {
    {"owns", (PyCFunction)Pool_owns, METH_O, "owns(storage, /)\n--\n\nWhether a storage is that of a graph's result."},
    {NULL, NULL, 0, NULL},
};

static Py_ssize_t Pool_length(Pool *pool) { return pool->n_results; }
static PySequenceMethods Pool_sequence = {.sq_length = (lenfunc)Pool_length};

PyTypeObject host_PoolType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Pool",
    .tp_basicsize = sizeof(Pool),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Pool(device_type, device_index, context, stream_of, unused, /)\n--\n\nGraphs that share memory. Its length: their results.",
    .tp_new = Pool_new,
    .tp_dealloc = (destructor)Pool_dealloc,
    .tp_methods = Pool_methods,
    .tp_as_sequence = &Pool_sequence,
};

/* --- recordings --- */

static int read_input(Input *in, PyObject *spec)
{
    unsigned long long address;
    PyObject *strides;
    if (!PyArg_ParseTuple(spec, "iKOLO", &in->kind, &address, &in->buffer, (long long *)&in->nbytes, &strides)) {
        in->buffer = NULL; /* borrowed */
        return -1;
    }
    Py_INCREF(in->buffer);
    in->address = (void *)(uintptr_t)address;
    if (strides == Py_None)
        return 0;
    in->ndim = (int)PyTuple_Size(strides);
    in->strides = program_longs(strides);
    return in->strides ? 0 : -1;
}

static int read_output(Output *out, PyObject *spec)
{
    PyObject *sizes, *strides;
    if (!PyArg_ParseTuple(spec, "iiO!O!LO", &out->kind, &out->index, &PyTuple_Type, &sizes, &PyTuple_Type, &strides, (long long *)&out->offset,
                          &out->value)) {
        out->value = NULL; /* borrowed */
        return -1;
    }
    Py_INCREF(out->value);
    out->ndim = out->kind == INPUT && out->value == Py_True ? -1 : (int)PyTuple_GET_SIZE(sizes);
    out->sizes = program_longs(sizes);
    out->strides = program_longs(strides);
    return out->sizes && out->strides ? 0 : -1;
}

/* Adds a result to the pool. The base must be all that uses the storage. */
static Result *read_result(Pool *pool, PyObject *spec)
{
    unsigned long long storage;
    if (pool->n_results == pool->room) {
        Py_ssize_t room = pool->room * 2 + 8;
        Result **more = PyMem_Realloc(pool->results, sizeof(Result *) * (size_t)room);
        if (!more)
            return (Result *)PyErr_NoMemory();
        pool->results = more;
        pool->room = room;
    }
    Result *r = PyMem_Calloc(1, sizeof(Result));
    if (!r)
        return (Result *)PyErr_NoMemory();
    if (!PyArg_ParseTuple(spec, "OKLLip", &r->base, &storage, (long long *)&r->nbytes, (long long *)&r->elements, &r->dtype, &r->kept)) {
        PyMem_Free(r);
        return NULL;
    }
    r->storage = (char *)(uintptr_t)storage;
    if (uses(r->storage) != pool->unused) {
        PyErr_Format(PyExc_RuntimeError, "a result of the captured graph has %u other uses", uses(r->storage) - pool->unused);
        PyMem_Free(r);
        return NULL;
    }
    Py_INCREF(r->base);
    r->number = pool->captured;
    r->has_owner = 1;
    return pool->results[pool->n_results++] = r;
}

static PyObject *Recording_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *pool, *keep, *replay, *copy, *inputs, *results, *outputs;
    unsigned long long executable;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OKOOO!O!O!", &host_PoolType, &pool, &keep, &executable, &replay, &copy, &PyTuple_Type, &inputs, &PyTuple_Type,
                          &results, &PyTuple_Type, &outputs))
        return NULL;
    Recording *r = (Recording *)type->tp_alloc(type, 0);
    if (!r)
        return NULL;
    r->pool = (Pool *)Py_NewRef(pool);
    r->number = ++r->pool->captured;
    r->keep = Py_NewRef(keep);
    r->replay = Py_NewRef(replay);
    r->copy = Py_NewRef(copy);
    r->executable = (void *)(uintptr_t)executable;
    r->inputs = PyMem_Calloc((size_t)PyTuple_GET_SIZE(inputs) + 1, sizeof(Input));
    r->outputs = PyMem_Calloc((size_t)PyTuple_GET_SIZE(outputs) + 1, sizeof(Output));
    r->results = PyMem_Calloc((size_t)PyTuple_GET_SIZE(results) + 1, sizeof(Result *));
    if (!r->inputs || !r->outputs || !r->results) {
        PyErr_NoMemory();
        goto fail;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        r->n_inputs++;
        if (read_input(&r->inputs[i], PyTuple_GET_ITEM(inputs, i)))
            goto fail;
        r->n_copied += r->inputs[i].kind == COPIED;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); i++) {
        r->n_outputs++;
        if (read_output(&r->outputs[i], PyTuple_GET_ITEM(outputs, i)))
            goto fail;
    }
    for (; r->n_results < PyTuple_GET_SIZE(results); r->n_results++)
        if (!(r->results[r->n_results] = read_result(r->pool, PyTuple_GET_ITEM(results, r->n_results))))
            goto fail;
    return (PyObject *)r;
fail:
    Py_DECREF(r);
    return NULL;
}

static int Recording_traverse(Recording *r, visitproc visit, void *arg)
{
    Py_VISIT(r->keep);
    Py_VISIT(r->replay);
    for (int i = 0; i < r->n_outputs; i++)
        Py_VISIT(r->outputs[i].value);
    return 0;
}

static int Recording_clear(Recording *r)
{
    Py_CLEAR(r->keep);
    Py_CLEAR(r->replay);
    for (int i = 0; i < r->n_outputs; i++)
        Py_CLEAR(r->outputs[i].value);
    return 0;
}

static void Recording_dealloc(Recording *r)
{
    PyObject_GC_UnTrack(r);
    for (int i = 0; i < r->n_results; i++)
        r->results[i]->has_owner = 0;
    is_blocked(r->pool, INT64_MAX); /* forgets the dead */
    Recording_clear(r);
    Py_XDECREF(r->copy);
    for (int i = 0; i < r->n_inputs; i++) {
        Py_XDECREF(r->inputs[i].buffer);
        PyMem_Free(r->inputs[i].strides);
    }
    for (int i = 0; i < r->n_outputs; i++) {
        PyMem_Free(r->outputs[i].sizes);
        PyMem_Free(r->outputs[i].strides);
    }
    PyMem_Free(r->inputs);
    PyMem_Free(r->outputs);
    PyMem_Free(r->results);
    Py_DECREF(r->pool);
    Py_TYPE(r)->tp_free((PyObject *)r);
}

/* 1, 0, or -1 with an error set */
static int has_strides(Input *in, PyObject *tensor)
{
    int64_t *strides = NULL;
    if (!in->strides)
        return 1;
    if (host_strides(tensor, &strides))
        return -1;
    return !memcmp(strides, in->strides, sizeof(int64_t) * (size_t)in->ndim);
}

static int is_fixed(Input *in, PyObject *tensor)
{
    void *data = NULL;
    if (host_data_ptr(tensor, &data))
        return -1;
    return data == in->address ? has_strides(in, tensor) : 0;
}

static int matches(Recording *r, PyObject **inputs)
{
    for (int i = 0; i < r->n_inputs; i++) {
        int ok = r->inputs[i].kind == FIXED ? is_fixed(&r->inputs[i], inputs[i]) : 1;
        if (ok <= 0)
            return ok;
    }
    return 1;
}

static int copy_one_by_one(Recording *r, PyObject **inputs, void *stream)
{
    for (int i = 0; i < r->n_inputs; i++) {
        Input *in = &r->inputs[i];
        void *data = NULL;
        if (in->kind == COPIED && (host_data_ptr(inputs[i], &data) || driver_copy(in->address, data, (size_t)in->nbytes, stream)))
            return -1;
    }
    return 0;
}

static int copy_inputs(Recording *r, PyObject **inputs, void *stream)
{
    int n = 0, plain = r->n_copied <= FEW || r->copy == Py_None;
    for (int i = 0; plain && i < r->n_inputs; i++)
        if (r->inputs[i].kind == COPIED && (plain = has_strides(&r->inputs[i], inputs[i])) < 0)
            return -1;
    if (plain)
        return copy_one_by_one(r, inputs, stream);
    PyObject *to = PyList_New(r->n_copied), *from = PyList_New(r->n_copied), *guard = host_enter_guard(), *done = NULL;
    if (to && from && guard) {
        for (int i = 0; i < r->n_inputs; i++)
            if (r->inputs[i].kind == COPIED) {
                PyList_SET_ITEM(to, n, Py_NewRef(r->inputs[i].buffer));
                PyList_SET_ITEM(from, n++, Py_NewRef(inputs[i]));
            }
        done = PyObject_CallFunctionObjArgs(r->copy, to, from, NULL);
    }
    if (guard)
        host_leave_guard(guard);
    Py_XDECREF(to);
    Py_XDECREF(from);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The memory that outputs of a call are views of: that of the result, or a copy of it. New reference. */
static PyObject *memory_of(Pool *pool, Result *result, void *stream)
{
    const int64_t one = 1;
    void *to = NULL, *from = NULL;
    if (!result->kept)
        return Py_NewRef(result->base);
    PyObject *copy = host_empty(1, &result->elements, &one, result->dtype, pool->device_type, pool->device_index);
    if (!copy || host_data_ptr(copy, &to) || host_data_ptr(result->base, &from) ||
        (result->nbytes && driver_copy(to, from, (size_t)result->nbytes, stream)))
        Py_CLEAR(copy);
    return copy;
}

static PyObject *hand_out(Recording *r, PyObject **inputs, void *stream)
{
    PyObject **memory = PyMem_Calloc((size_t)r->n_results + 1, sizeof(PyObject *)), *out = NULL;
    if (!memory)
        return PyErr_NoMemory();
    for (int i = 0; i < r->n_results; i++)
        if (!(memory[i] = memory_of(r->pool, r->results[i], stream)))
            goto done;
    out = PyTuple_New(r->n_outputs);
    for (int i = 0; out && i < r->n_outputs; i++) {
        Output *o = &r->outputs[i];
        PyObject *base = o->kind == RESULT ? memory[o->index] : o->kind == INPUT ? inputs[o->index] : o->value;
        PyObject *value = o->kind == VALUE || o->ndim < 0 ? Py_NewRef(base) : host_view(base, o->ndim, o->sizes, o->strides, o->offset);
        if (value)
            PyTuple_SET_ITEM(out, i, value);
        else
            Py_CLEAR(out);
    }
done:
    for (int i = 0; i < r->n_results; i++)
        Py_XDECREF(memory[i]);
    PyMem_Free(memory);
    return out;
}

/* Graphs of a pool run one after the other, on whatever streams. */
static int follow(Pool *pool, void *stream)
{
    if (pool->has_run && pool->last_stream != stream && driver_follow(&pool->event, pool->last_stream, stream))
        return -1;
    pool->last_stream = stream;
    pool->has_run = 1;
    return 0;
}

static PyObject *replay_now(Recording *r, PyObject **inputs, void *stream)
{
    if (follow(r->pool, stream) || copy_inputs(r, inputs, stream))
        return NULL;
    if (r->replay == Py_None) {
        if (driver_launch_graph(r->executable, stream))
            return NULL;
    } else {
        PyObject *done = PyObject_CallNoArgs(r->replay);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    return hand_out(r, inputs, stream);
}

static PyObject *replay(Recording *r, PyObject **inputs, void *stream)
{
    r->pool->is_busy = 1;
    PyObject *out = replay_now(r, inputs, stream);
    r->pool->is_busy = 0;
    return out;
}

static int enter(Pool *pool, void **stream, void **before)
{
    PyObject *number = PyObject_CallOneArg(pool->stream_of, pool->device_number);
    if (!number)
        return -1;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : driver_enter(pool->context, before);
}

static PyObject *Recording_replay(Recording *r, PyObject *inputs)
{
    void *stream = NULL, *before = NULL;
    if (!PyList_CheckExact(inputs) || PyList_GET_SIZE(inputs) != r->n_inputs)
        return PyErr_Format(PyExc_TypeError, "expected a list of %d inputs", r->n_inputs), NULL;
    if (r->pool->is_busy)
        Py_RETURN_NONE;
    if (enter(r->pool, &stream, &before))
        return NULL;
    PyObject *out = replay(r, PySequence_Fast_ITEMS(inputs), stream);
    driver_leave(before);
    return out;
}

static PyObject *Recording_moved(Recording *r, PyObject *inputs)
{
    if (!PyList_CheckExact(inputs) || PyList_GET_SIZE(inputs) != r->n_inputs)
        return PyErr_Format(PyExc_TypeError, "expected a list of %d inputs", r->n_inputs), NULL;
    PyObject *moved = PyList_New(0);
    for (int i = 0; moved && i < r->n_inputs; i++) {
        int ok = r->inputs[i].kind == FIXED ? is_fixed(&r->inputs[i], PyList_GET_ITEM(inputs, i)) : 1;
        PyObject *number = ok ? NULL : PyLong_FromLong(i);
        if (ok < 0 || (!ok && (!number || PyList_Append(moved, number))))
            Py_CLEAR(moved);
        Py_XDECREF(number);
    }
    return moved;
}

static PyObject *Recording_kept(Recording *r, void *closure)
{
    PyObject *kept = PyTuple_New(r->n_results);
    (void)closure;
    for (int i = 0; kept && i < r->n_results; i++)
        PyTuple_SET_ITEM(kept, i, PyBool_FromLong(r->results[i]->kept));
    return kept;
}

static PyMethodDef Recording_methods[] = {
    {"replay", (PyCFunction)Recording_replay, METH_O, "replay(inputs, /)\n--\n\nThe outputs, or None while another thread replays. No address is checked."},
    {"moved", (PyCFunction)Recording_moved, METH_O, "moved(inputs, /)\n--\n\nPositions of the inputs that are not where they were."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Recording_getset[] = {
    {"kept", (getter)Recording_kept, NULL, "Of each result whether it is copied out.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject host_RecordingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Recording",
    .tp_basicsize = sizeof(Recording),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Recording(pool, keep, executable, replay, copy, inputs, results, outputs, /)\n--\n\nA captured graph.",
    .tp_new = Recording_new,
    .tp_dealloc = (destructor)Recording_dealloc,
    .tp_traverse = (traverseproc)Recording_traverse,
    .tp_clear = (inquiry)Recording_clear,
    .tp_methods = Recording_methods,
    .tp_getset = Recording_getset,
};

/* --- calls --- */

static PyObject *otherwise(Graphed *g, PyObject *inputs, PyObject *blocked)
{
    return PyObject_CallFunctionObjArgs(g->otherwise, inputs, blocked, NULL);
}

/* The recording that fits, made last first: borrowed, or NULL, with or without an error. */
static Recording *find(Graphed *g, PyObject **inputs, Py_ssize_t n)
{
    for (Py_ssize_t i = PyList_GET_SIZE(g->recordings) - 1; i >= 0; i--) {
        Recording *r = (Recording *)PyList_GET_ITEM(g->recordings, i);
        int ok = r->n_inputs == n ? matches(r, inputs) : 0;
        if (ok)
            return ok > 0 ? r : NULL;
    }
    return NULL;
}

static PyObject *call_on(Graphed *g, PyObject *given, PyObject *inputs, void *stream)
{
    if (g->pool->is_busy || driver_is_capturing(stream)) /* of the program, or of ours that this is a part of */
        return PyObject_CallOneArg(g->program, given);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(inputs);
    PyObject **items = PySequence_Fast_ITEMS(inputs);
    Recording *found = find(g, items, n);
    if (!found)
        return PyErr_Occurred() ? NULL : otherwise(g, given, Py_None);
    if (is_blocked(found->pool, found->number))
        return otherwise(g, given, (PyObject *)found);
    Py_INCREF(found);
    PyObject *out = replay(found, items, stream);
    Py_DECREF(found);
    if (out && g->owns_inputs && inputs == given)
        for (Py_ssize_t i = 0; i < n; i++)
            Py_SETREF(items[i], Py_NewRef(Py_None));
    return out;
}

static PyObject *Graphed_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Graphed *g = (Graphed *)self;
    void *stream = NULL, *before = NULL;
    if (PyVectorcall_NARGS(nargsf) != 1 || (kwnames && PyTuple_GET_SIZE(kwnames)))
        return PyErr_SetString(PyExc_TypeError, "a compiled graph takes one list of inputs"), NULL;
    if (!PyList_GET_SIZE(g->recordings))
        return otherwise(g, args[0], Py_None);
    if (Py_TYPE(g->program) == &host_ProgramType) {
        Program *p = (Program *)g->program;
        if (p->flag && *p->flag)
            return host_refuse_index(p), NULL;
    }
    PyObject *inputs = PySequence_Fast(args[0], "a compiled graph takes one list of inputs"), *out = NULL;
    if (inputs && !enter(g->pool, &stream, &before)) {
        out = call_on(g, args[0], inputs, stream);
        driver_leave(before);
    }
    Py_XDECREF(inputs);
    return out;
}

static PyObject *Graphed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *program, *pool, *recordings, *otherwise;
    int owns, below, lays_out;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO!O!Oppp", &program, &host_PoolType, &pool, &PyList_Type, &recordings, &otherwise, &owns, &below, &lays_out))
        return NULL;
    Graphed *g = (Graphed *)type->tp_alloc(type, 0);
    if (!g)
        return NULL;
    g->vectorcall = Graphed_vectorcall;
    g->program = Py_NewRef(program);
    g->pool = (Pool *)Py_NewRef(pool);
    g->recordings = Py_NewRef(recordings);
    g->otherwise = Py_NewRef(otherwise);
    g->owns_inputs = owns;
    g->is_below_autograd = below;
    g->lays_out_inputs = lays_out;
    return (PyObject *)g;
}

static int Graphed_traverse(Graphed *g, visitproc visit, void *arg)
{
    Py_VISIT(g->program);
    Py_VISIT(g->recordings);
    Py_VISIT(g->otherwise);
    return 0;
}

static int Graphed_clear(Graphed *g)
{
    Py_CLEAR(g->program);
    Py_CLEAR(g->recordings);
    Py_CLEAR(g->otherwise);
    return 0;
}

static void Graphed_dealloc(Graphed *g)
{
    PyObject_GC_UnTrack(g);
    Graphed_clear(g);
    Py_XDECREF(g->pool);
    Py_TYPE(g)->tp_free((PyObject *)g);
}

static PyObject *Graphed_truth(PyObject *self, void *offset)
{
    return PyBool_FromLong(*(int *)((char *)self + (uintptr_t)offset));
}

static PyGetSetDef Graphed_getset[] = {
    {"lays_out_inputs", Graphed_truth, NULL, "Inputs may come in any strides.", (void *)offsetof(Graphed, lays_out_inputs)},
    {"is_below_autograd", Graphed_truth, NULL, "Calls need no guard against autograd around them.",
     (void *)offsetof(Graphed, is_below_autograd)},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject host_GraphedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Graphed",
    .tp_basicsize = sizeof(Graphed),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Graphed(program, pool, recordings, otherwise, owns_inputs, is_below_autograd, lays_out_inputs, /)\n--\n\n"
              "A program whose recordings are replayed where one fits; `otherwise(inputs, blocked recording or None)` runs where none does.",
    .tp_new = Graphed_new,
    .tp_dealloc = (destructor)Graphed_dealloc,
    .tp_traverse = (traverseproc)Graphed_traverse,
    .tp_clear = (inquiry)Graphed_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Graphed, vectorcall),
    .tp_getset = Graphed_getset,
};

static PyObject *storage_uses(PyObject *module, PyObject *number)
{
    (void)module;
    char *storage = PyLong_AsVoidPtr(number);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(uses(storage));
}

PyMethodDef graph_methods[] = {
    {"storage_uses", storage_uses, METH_O, "storage_uses(storage, /)\n--\n\nThe reference count of a storage, by its address."},
    {NULL, NULL, 0, NULL},
};
