/* One captured graph: whether inputs fit it, how they get into it, and what its callers get. */
#include "driver.h"
#include "graphs.h"
#include "tensors.h"

enum { UNREAD, FIXED, COPIED }; /* inputs: not looked at, at one address, copied into a buffer */
enum { RESULT, VALUE, INPUT };  /* outputs: over a result, one object for all calls, a view of an input */
enum { FEW = 3 };               /* inputs up to which single copies cost the host less than one for all */

typedef struct Input {
    int kind, ndim;
    void *address;
    PyObject *buffer;
    int64_t nbytes, *strides; /* strides: NULL where no caller has others */
} Input;

typedef struct Output {
    int kind, index, ndim; /* ndim -1: the input itself */
    int64_t *sizes, *strides, offset;
    PyObject *value;
} Output;

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
        if (!(r->results[r->n_results] = pool_add(r->pool, PyTuple_GET_ITEM(results, r->n_results))))
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
    pool_is_blocked(r->pool, INT64_MAX); /* forgets the dead */
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

int recording_matches(Recording *r, PyObject **inputs)
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

static PyObject *hand_out(Recording *r, PyObject **inputs, void *stream)
{
    PyObject **memory = PyMem_Calloc((size_t)r->n_results + 1, sizeof(PyObject *)), *out = NULL;
    if (!memory)
        return PyErr_NoMemory();
    for (int i = 0; i < r->n_results; i++)
        if (!(memory[i] = pool_memory(r->pool, r->results[i], stream)))
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

static PyObject *replay_now(Recording *r, PyObject **inputs, void *stream)
{
    if (pool_follow(r->pool, stream) || copy_inputs(r, inputs, stream))
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

PyObject *recording_replay(Recording *r, PyObject **inputs, void *stream)
{
    r->pool->is_busy = 1;
    PyObject *out = replay_now(r, inputs, stream);
    r->pool->is_busy = 0;
    return out;
}

static PyObject *Recording_replay(Recording *r, PyObject *inputs)
{
    void *stream = NULL, *before = NULL;
    if (!PyList_CheckExact(inputs) || PyList_GET_SIZE(inputs) != r->n_inputs)
        return PyErr_Format(PyExc_TypeError, "expected a list of %d inputs", r->n_inputs), NULL;
    if (r->pool->is_busy)
        Py_RETURN_NONE;
    if (pool_enter(r->pool, &stream, &before))
        return NULL;
    PyObject *out = recording_replay(r, PySequence_Fast_ITEMS(inputs), stream);
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
