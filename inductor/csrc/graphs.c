/* A program whose calls replay what was captured of it, where something fits; Python runs where nothing does. */
#include "driver.h"
#include "graphs.h"
#include <stddef.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *program, *recordings, *otherwise;
    Pool *pool;
    int owns_inputs, is_below_autograd, lays_out_inputs;
} Graphed;

static PyObject *otherwise(Graphed *g, PyObject *inputs, PyObject *blocked)
{
    return PyObject_CallFunctionObjArgs(g->otherwise, inputs, blocked, NULL);
}

/* The recording that fits, made last first: borrowed, or NULL, with or without an error. */
static Recording *find(Graphed *g, PyObject **inputs, Py_ssize_t n)
{
    for (Py_ssize_t i = PyList_GET_SIZE(g->recordings) - 1; i >= 0; i--) {
        Recording *r = (Recording *)PyList_GET_ITEM(g->recordings, i);
        int ok = r->n_inputs == n ? recording_matches(r, inputs) : 0;
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
    if (pool_is_blocked(found->pool, found->number))
        return otherwise(g, given, (PyObject *)found);
    Py_INCREF(found);
    PyObject *out = recording_replay(found, items, stream);
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
    if (inputs && !pool_enter(g->pool, &stream, &before)) {
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
