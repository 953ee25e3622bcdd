/* Direct: an entry function without a Python frame. */
#include "core.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;
    PyObject *args_tuple;
    PyObject *out;
    PyObject *rescue; /* or NULL */
    Py_ssize_t n, highest;
    Py_ssize_t *pick;
} Direct;

static PyObject *item(PyObject *result, PyObject *index)
{
    if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
        Py_ssize_t k = PyLong_AsSsize_t(index);
        Py_ssize_t size = PySequence_Fast_GET_SIZE(result);
        if (k < 0)
            k += size;
        if (k >= 0 && k < size)
            return Py_NewRef(PySequence_Fast_GET_ITEM(result, k));
    }
    return PyObject_GetItem(result, index);
}

/* fn has raised an Exception: Tail(rescue, (it, None, *inputs)). The driver calls that when the exception is no longer being handled. */
static PyObject *hand_over(Direct *self, PyObject *const *inputs, Py_ssize_t n)
{
    PyObject *error = dd_take_error();
    PyObject *args = PyTuple_New(n + 2), *tail = NULL;
    if (args) {
        PyTuple_SET_ITEM(args, 0, Py_NewRef(error));
        PyTuple_SET_ITEM(args, 1, Py_NewRef(Py_None));
        for (Py_ssize_t i = 0; i < n; i++)
            PyTuple_SET_ITEM(args, i + 2, Py_NewRef(inputs[i]));
        tail = PyObject_CallFunctionObjArgs((PyObject *)&dd_Tail_Type, self->rescue, args, NULL);
        Py_DECREF(args);
    }
    Py_DECREF(error);
    return tail;
}

static PyObject *Direct_vectorcall(PyObject *op, PyObject *const *inputs, size_t nargsf, PyObject *kwnames)
{
    Direct *self = (Direct *)op;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (kwnames && PyTuple_GET_SIZE(kwnames))
        return PyErr_Format(PyExc_TypeError, "Direct takes no keyword arguments");
    if (n <= self->highest)
        return PyErr_Format(PyExc_TypeError, "Direct: reads input %zd, got %zd inputs", self->highest, n);
    PyObject *small[DD_STACK_INPUTS + 1] = {NULL}, **args = self->n <= DD_STACK_INPUTS ? small : PyMem_New(PyObject *, self->n + 1);
    if (!args)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < self->n; i++)
        args[i + 1] = inputs[self->pick[i]];
    PyObject *result = PyObject_Vectorcall(self->fn, args + 1, (size_t)self->n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (args != small)
        PyMem_Free(args);
    if (!result && self->rescue && PyErr_ExceptionMatches(PyExc_Exception))
        return hand_over(self, inputs, n);
    if (!result || self->out == Py_None)
        return result;
    PyObject *picked;
    if (PyLong_Check(self->out))
        picked = item(result, self->out);
    else {
        Py_ssize_t size = PyTuple_GET_SIZE(self->out);
        picked = PyTuple_New(size);
        for (Py_ssize_t i = 0; picked && i < size; i++) {
            PyObject *one = item(result, PyTuple_GET_ITEM(self->out, i));
            if (one)
                PyTuple_SET_ITEM(picked, i, one);
            else
                Py_CLEAR(picked);
        }
    }
    Py_DECREF(result);
    return picked;
}

static PyObject *Direct_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "args", "out", "rescue", NULL};
    PyObject *fn, *indices, *out, *rescue = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O|O:Direct", names, &fn, &PyTuple_Type, &indices, &out, &rescue))
        return NULL;
    bool good = out == Py_None || PyLong_Check(out) || PyTuple_Check(out);
    for (Py_ssize_t i = 0; good && PyTuple_Check(out) && i < PyTuple_GET_SIZE(out); i++)
        good = PyLong_Check(PyTuple_GET_ITEM(out, i));
    if (!good)
        return PyErr_Format(PyExc_TypeError, "Direct: out must be None, an int or a tuple of ints, not %R", out);
    Direct *self = (Direct *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = Direct_vectorcall;
    self->fn = Py_NewRef(fn);
    self->args_tuple = Py_NewRef(indices);
    self->out = Py_NewRef(out);
    self->rescue = rescue == Py_None ? NULL : Py_NewRef(rescue);
    self->n = PyTuple_GET_SIZE(indices);
    self->highest = -1;
    self->pick = PyMem_New(Py_ssize_t, self->n + 1);
    if (!self->pick) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        Py_ssize_t k = PyLong_AsSsize_t(PyTuple_GET_ITEM(indices, i));
        if (k < 0) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "Direct: input index %zd is negative", k);
            Py_DECREF(self);
            return NULL;
        }
        self->pick[i] = k;
        self->highest = k > self->highest ? k : self->highest;
    }
    return (PyObject *)self;
}

static int Direct_traverse(Direct *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->rescue);
    return 0;
}

static int Direct_clear(Direct *self)
{
    Py_XSETREF(self->fn, Py_NewRef(Py_None));
    Py_CLEAR(self->rescue);
    return 0;
}

static void Direct_dealloc(Direct *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->fn);
    Py_XDECREF(self->args_tuple);
    Py_XDECREF(self->out);
    Py_XDECREF(self->rescue);
    PyMem_Free(self->pick);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Direct_members[] = {
    {"fn", T_OBJECT, offsetof(Direct, fn), READONLY, "the function called"},
    {"args", T_OBJECT, offsetof(Direct, args_tuple), READONLY, "which inputs it gets"},
    {"out", T_OBJECT, offsetof(Direct, out), READONLY, "what of its result is returned"},
    {"rescue", T_OBJECT, offsetof(Direct, rescue), READONLY, "what is called when fn raises"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dd_Direct_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Direct",
    .tp_doc = "Direct(fn, args, out, rescue=None)\n--\n\nAn entry function without a Python frame: fn(*[inputs[i] for i in args]), then the picked part of the result. "
              "When fn raises an Exception and there is a rescue, the result is Tail(rescue, (exception, None, *inputs)).",
    .tp_basicsize = sizeof(Direct),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = Direct_new,
    .tp_dealloc = (destructor)Direct_dealloc,
    .tp_traverse = (traverseproc)Direct_traverse,
    .tp_clear = (inquiry)Direct_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Direct, vectorcall),
    .tp_members = Direct_members,
};
