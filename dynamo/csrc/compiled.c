/* Compiled: the vectorcall object in front of a function; Tail and Direct; and the driver that performs pending calls in a loop. */
#include "core.h"
#include <structmember.h>

PyObject *dd_frozen_handler;

/* ---- Tail ---- */

static PyObject *Tail_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "args", "native", NULL};
    PyObject *fn, *fn_args;
    int native = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!|p:Tail", names, &fn, &PyTuple_Type, &fn_args, &native))
        return NULL;
    Tail *self = (Tail *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->fn = Py_NewRef(fn);
    self->args = Py_NewRef(fn_args);
    self->native = native;
    return (PyObject *)self;
}

/* Generated code makes one Tail per break: no keyword parsing on the way. */
static PyObject *Tail_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (!kwnames && (n == 2 || (n == 3 && PyBool_Check(args[2]))) && PyTuple_CheckExact(args[1])) {
        Tail *self = PyObject_GC_New(Tail, &dd_Tail_Type);
        if (!self)
            return NULL;
        self->fn = Py_NewRef(args[0]);
        self->args = Py_NewRef(args[1]);
        self->native = n == 3 && args[2] == Py_True;
        PyObject_GC_Track(self);
        return (PyObject *)self;
    }
    PyObject *positional = dd_tuple_of(args, n), *keywords = NULL, *made = NULL;
    if (positional && kwnames) {
        keywords = PyDict_New();
        for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(kwnames); i++)
            if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0)
                Py_CLEAR(keywords);
    }
    if (positional && (keywords || !kwnames))
        made = Tail_new((PyTypeObject *)type, positional, keywords);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return made;
}

static int Tail_traverse(Tail *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->args);
    return 0;
}

static void Tail_dealloc(Tail *self)
{
    PyObject_GC_UnTrack(self);
    Py_DECREF(self->fn);
    Py_DECREF(self->args);
    PyObject_GC_Del(self);
}

static PyMemberDef Tail_members[] = {
    {"fn", T_OBJECT, offsetof(Tail, fn), READONLY, "what is called next"},
    {"args", T_OBJECT, offsetof(Tail, args), READONLY, "its positional arguments"},
    {"native", T_BOOL, offsetof(Tail, native), READONLY, "whether the frame hook is active while fn runs"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dd_Tail_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Tail",
    .tp_doc = "Tail(fn, args, native=False)\n--\n\nA pending call, performed by the driver so that chains use no stack.",
    .tp_basicsize = sizeof(Tail),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Tail_new,
    .tp_vectorcall = Tail_vectorcall,
    .tp_dealloc = (destructor)Tail_dealloc,
    .tp_traverse = (traverseproc)Tail_traverse,
    .tp_members = Tail_members,
};

/* ---- serving ---- */

static void report_frozen(Compiled *c, PyObject *const *inputs, Py_ssize_t n)
{
    PyObject *handler = Py_XNewRef(dd_frozen_handler);
    if (!handler)
        return;
    PyObject *tuple = dd_tuple_of(inputs, n);
    PyObject *result = tuple ? PyObject_CallFunctionObjArgs(handler, (PyObject *)c, tuple, NULL) : NULL;
    if (!result)
        PyErr_WriteUnraisable(handler);
    Py_XDECREF(result);
    Py_XDECREF(tuple);
    Py_DECREF(handler);
}

/* The compiler follows calls of the program, each in a few of its own, and needs some itself wherever the program stands: it has this many,
 * and none of the program's. */
#define CALLS_OF_A_COMPILE 4000

static PyObject *call_ours(PyObject *fn, PyObject *first, PyObject *second)
{
    int *left = dd_calls_left(PyThreadState_Get()), more = *left < CALLS_OF_A_COMPILE ? CALLS_OF_A_COMPILE - *left : 0;
    PyObject *held = Py_NewRef(fn), *pair[] = {first, second};
    *left += more;
    PyObject *result = PyObject_Vectorcall(held, pair, 2, NULL);
    *left -= more;
    Py_DECREF(held);
    return result;
}

/* An error of a compile or a graph behind a break: no frame of the program runs that would end the blocks which are open there. */
static PyObject *raised_inside(Compiled *c, PyObject *const *inputs, Py_ssize_t n)
{
    PyObject *error = dd_take_error();
    PyObject *fn = call_ours(c->raising, c->fn, error);
    PyObject *result = fn ? PyObject_Vectorcall(fn, inputs, (size_t)n, NULL) : NULL;
    Py_XDECREF(fn);
    Py_DECREF(error);
    return result;
}

/* One lookup with bound inputs, and the call if it hits. The result may be a Tail.
 * *native = true with a NULL result and no error: nothing fits and the original must run. */
PyObject *dd_serve(Thread *t, Compiled *c, PyObject *const *inputs, Py_ssize_t n, bool *native)
{
    int was_native = t->native;
    PyObject *result = NULL;
    Cache *cache = c->cache;

    *native = false;
    t->native = 0; /* guards, the compiler and entries are ours: the hook has no business in their frames */
    Entry *entry = dd_cache_find(cache, inputs, n);
    if (entry) {
        result = PyObject_Vectorcall(entry->fn, inputs, (size_t)n, NULL);
        Py_DECREF(entry);
    }
    else if (PyErr_Occurred())
        ;
    else if (cache->mode != DD_ACTIVE || t->stance == DD_STANCE_FROZEN) {
        cache->misses++;
        if (t->stance == DD_STANCE_FROZEN)
            report_frozen(c, inputs, n);
        *native = true;
    }
    else {
        PyObject *tuple = dd_tuple_of(inputs, n);
        PyObject *made = NULL;
        if (tuple) {
            made = call_ours(c->miss, (PyObject *)c, tuple);
            Py_DECREF(tuple);
        }
        if (made == Py_None)
            *native = true;
        else if (made)
            result = PyObject_Vectorcall(made, inputs, (size_t)n, NULL);
        Py_XDECREF(made);
    }
    if (!result && !*native && c->raising)
        result = raised_inside(c, inputs, n);
    t->native = was_native;
    return result;
}

/* The original function with the original arguments, the frame hook watching the frames it calls. */
static PyObject *run_native(Thread *t, Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Scope saved;
    PyObject *fn = Py_NewRef(c->fn), *context = Py_NewRef(c->context);
    dd_scope_enter(t, &saved, context, fn);
    PyObject *result = PyObject_Vectorcall(fn, args, nargsf, kwnames);
    dd_scope_leave(t, &saved);
    Py_DECREF(context);
    Py_DECREF(fn);
    return result;
}

/* One call, not driven: the result may be a Tail. */
static PyObject *step(Thread *t, Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    bool native = true;
    PyObject *result = NULL;

    if (t->disabled || t->stance == DD_STANCE_EAGER || c->cache->mode == DD_SKIP || PyFunction_GET_CODE(c->fn) != c->code)
        return run_native(t, c, args, nargsf, kwnames);

    Py_ssize_t n = c->slots + c->cells;
    if (c->simple && !kwnames && PyVectorcall_NARGS(nargsf) == c->slots) {
        if (!c->cells)
            result = dd_serve(t, c, args, n, &native);
        else {
            PyObject *small[DD_STACK_INPUTS], **inputs = n <= DD_STACK_INPUTS ? small : PyMem_New(PyObject *, n);
            if (!inputs)
                return PyErr_NoMemory();
            memcpy(inputs, args, (size_t)c->slots * sizeof(PyObject *));
            dd_copy_cells(c, c->fn, inputs + c->slots);
            result = dd_serve(t, c, inputs, n, &native);
            if (inputs != small)
                PyMem_Free(inputs);
        }
    }
    else {
        PyObject *small[DD_STACK_INPUTS], **inputs = n <= DD_STACK_INPUTS ? small : PyMem_New(PyObject *, n);
        if (!inputs)
            return PyErr_NoMemory();
        int bound = dd_bind(c, args, nargsf, kwnames, inputs);
        if (bound > 0) {
            dd_copy_cells(c, c->fn, inputs + c->slots);
            result = dd_serve(t, c, inputs, n, &native);
            for (Py_ssize_t i = 0; i < c->slots; i++)
                Py_DECREF(inputs[i]);
        }
        else
            native = bound == 0; /* let CPython word its own TypeError */
        if (inputs != small)
            PyMem_Free(inputs);
    }
    return native ? run_native(t, c, args, nargsf, kwnames) : result;
}

/* Performs pending calls until there is a real result. */
PyObject *dd_drive(Thread *t, PyObject *result, PyObject *context)
{
    while (result && Py_IS_TYPE(result, &dd_Tail_Type)) {
        Tail *tail = (Tail *)result;
        PyObject *const *args = ((PyTupleObject *)tail->args)->ob_item;
        size_t n = (size_t)PyTuple_GET_SIZE(tail->args);
        if (Py_IS_TYPE(tail->fn, &dd_Compiled_Type))
            result = step(t, (Compiled *)tail->fn, args, n, NULL);
        else if (tail->native) {
            Scope saved;
            dd_scope_enter(t, &saved, context, tail->fn);
            result = PyObject_Vectorcall(tail->fn, args, n, NULL);
            dd_scope_leave(t, &saved);
        }
        else {
            int was_native = t->native;
            t->native = 0;
            result = PyObject_Vectorcall(tail->fn, args, n, NULL);
            t->native = was_native;
        }
        Py_DECREF(tail);
    }
    return result;
}

static PyObject *Compiled_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Compiled *c = (Compiled *)self;
    Thread *t = &dd_thread;
    if (Py_EnterRecursiveCall(" while calling a compiled function"))
        return NULL;
    PyObject *result = step(t, c, args, nargsf, kwnames);
    if (result && Py_IS_TYPE(result, &dd_Tail_Type)) {
        Py_INCREF(c); /* the chain may drop the last other reference to this object, whose context it needs */
        result = dd_drive(t, result, c->context);
        Py_DECREF(c);
    }
    Py_LeaveRecursiveCall();
    return result;
}

/* ---- Compiled as an object ---- */

static PyObject *Compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "cache", "miss", "context", "raising", NULL};
    PyObject *fn, *cache, *miss, *context = Py_None, *raising = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O|OO:Compiled", names, &PyFunction_Type, &fn, &dd_Cache_Type, &cache, &miss, &context,
                                     &raising))
        return NULL;
    if (!PyCallable_Check(miss))
        return PyErr_Format(PyExc_TypeError, "Compiled: miss must be callable, not %.100s", Py_TYPE(miss)->tp_name);
    if (((Cache *)cache)->code != PyFunction_GET_CODE(fn))
        return PyErr_Format(PyExc_ValueError, "Compiled: the cache is for %R, fn has %R", ((Cache *)cache)->code, PyFunction_GET_CODE(fn));
    Compiled *self = (Compiled *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = Compiled_vectorcall;
    self->fn = Py_NewRef(fn);
    self->code = Py_NewRef(PyFunction_GET_CODE(fn));
    self->cache = (Cache *)Py_NewRef(cache);
    self->miss = Py_NewRef(miss);
    self->context = Py_NewRef(context);
    self->raising = raising == Py_None ? NULL : Py_NewRef(raising);
    dd_bind_shape(self);
    return (PyObject *)self;
}

static int Compiled_traverse(Compiled *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->code);
    Py_VISIT(self->cache);
    Py_VISIT(self->miss);
    Py_VISIT(self->context);
    Py_VISIT(self->raising);
    Py_VISIT(self->dict);
    return 0;
}

/* Only what can be replaced by None is cleared: fn and cache are read without checks, and their own clear breaks the cycles. */
static int Compiled_clear(Compiled *self)
{
    Py_XSETREF(self->miss, Py_NewRef(Py_None));
    Py_XSETREF(self->context, Py_NewRef(Py_None));
    Py_CLEAR(self->raising);
    Py_CLEAR(self->dict);
    return 0;
}

static void Compiled_dealloc(Compiled *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_XDECREF(self->fn);
    Py_XDECREF(self->code);
    Py_XDECREF(self->cache);
    Py_XDECREF(self->miss);
    Py_XDECREF(self->context);
    Py_XDECREF(self->raising);
    Py_XDECREF(self->dict);
    Py_XDECREF(self->names);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *Compiled_repr(Compiled *self)
{
    return PyUnicode_FromFormat("<function %U at %p>", ((PyFunctionObject *)self->fn)->func_qualname, self);
}

static PyObject *Compiled_descr_get(PyObject *self, PyObject *obj, PyObject *Py_UNUSED(type))
{
    return obj && obj != Py_None ? PyMethod_New(self, obj) : Py_NewRef(self);
}

/* What this object doesn't have itself is read from the function (__defaults__, __globals__, user attributes ...). */
static PyObject *Compiled_getattro(PyObject *self, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(self, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    PyErr_Clear();
    return PyObject_GetAttr(((Compiled *)self)->fn, name);
}

/* __name__ and the like live on the type for every class, so the instance needs its own way to the function's. */
static PyObject *get_forwarded(Compiled *self, void *name)
{
    PyObject *key = PyUnicode_InternFromString(name), *value = NULL;
    if (!key)
        return NULL;
    if (self->dict)
        value = Py_XNewRef(PyDict_GetItemWithError(self->dict, key));
    if (!value && !PyErr_Occurred())
        value = PyObject_GetAttr(self->fn, key);
    Py_DECREF(key);
    return value;
}

static int set_forwarded(Compiled *self, PyObject *value, void *name)
{
    if (!self->dict && !(self->dict = PyDict_New()))
        return -1;
    return value ? PyDict_SetItemString(self->dict, name, value) : PyDict_DelItemString(self->dict, name);
}

/* `isinstance` takes a compiled function for the function that torch's is; `type()` knows better. */
static PyObject *get_class(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)&PyFunction_Type);
}

static PyObject *Compiled_bind(Compiled *self, PyObject *arg)
{
    PyObject *args, *kwargs;
    if (!PyArg_ParseTuple(arg, "O!O!:bind", &PyTuple_Type, &args, &PyDict_Type, &kwargs))
        return NULL;
    Py_ssize_t nargs = PyTuple_GET_SIZE(args), nkw = PyDict_GET_SIZE(kwargs), n = self->slots + self->cells;
    PyObject *kwnames = PyTuple_New(nkw), *result = NULL, *key, *value;
    PyObject **flat = PyMem_New(PyObject *, nargs + nkw + 1), **inputs = PyMem_New(PyObject *, n + 1);
    if (!kwnames || !flat || !inputs) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        flat[i] = PyTuple_GET_ITEM(args, i);
    for (Py_ssize_t pos = 0, k = 0; PyDict_Next(kwargs, &pos, &key, &value); k++) {
        PyTuple_SET_ITEM(kwnames, k, Py_NewRef(key));
        flat[nargs + k] = value;
    }
    int bound = dd_bind(self, flat, (size_t)nargs, kwnames, inputs);
    if (bound > 0) {
        dd_copy_cells(self, self->fn, inputs + self->slots);
        result = dd_tuple_of(inputs, n);
        for (Py_ssize_t i = 0; i < self->slots; i++)
            Py_DECREF(inputs[i]);
    }
    else if (bound == 0) {
        PyObject *ran = PyObject_Call(self->fn, args, kwargs); /* CPython's own words */
        if (ran)
            PyErr_Format(PyExc_SystemError, "bind: %R took arguments that dynamo._C refused; please report the signature", self->fn);
        Py_XDECREF(ran);
    }
done:
    Py_XDECREF(kwnames);
    PyMem_Free(flat);
    PyMem_Free(inputs);
    return result;
}

/* As a function: by its name. pickle asks whether the object of that name is this one. */
static PyObject *Compiled_reduce(Compiled *self, PyObject *Py_UNUSED(ignored))
{
    return get_forwarded(self, "__qualname__");
}

static PyObject *Compiled_copy(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(self);
}

static PyMemberDef Compiled_members[] = {
    {"fn", T_OBJECT, offsetof(Compiled, fn), READONLY, "the original function"},
    {"__wrapped__", T_OBJECT, offsetof(Compiled, fn), READONLY, "the original function"},
    {"_torchdynamo_orig_callable", T_OBJECT, offsetof(Compiled, fn), READONLY, "the original function, as torch's compiler names it"},
    {"cache", T_OBJECT, offsetof(Compiled, cache), READONLY, "the Cache it serves from"},
    {"context", T_OBJECT, offsetof(Compiled, context), READONLY, "the compile context"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef Compiled_getset[] = {
    {"__class__", (getter)get_class, NULL, NULL, NULL},
    {"__name__", (getter)get_forwarded, (setter)set_forwarded, NULL, "__name__"},
    {"__qualname__", (getter)get_forwarded, (setter)set_forwarded, NULL, "__qualname__"},
    {"__doc__", (getter)get_forwarded, (setter)set_forwarded, NULL, "__doc__"},
    {"__module__", (getter)get_forwarded, (setter)set_forwarded, NULL, "__module__"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef Compiled_methods[] = {
    {"bind", (PyCFunction)Compiled_bind, METH_VARARGS,
     "bind($self, args, kwargs, /)\n--\n\nFrame inputs for a call, as one tuple; raises the TypeError CPython raises."},
    {"__reduce__", (PyCFunction)Compiled_reduce, METH_NOARGS, "Its qualified name: pickled as functions are."},
    {"__copy__", Compiled_copy, METH_NOARGS, "__copy__($self, /)\n--\n\nA copy of a function is the function."},
    {"__deepcopy__", Compiled_copy, METH_O, "__deepcopy__($self, memo, /)\n--\n\nA copy of a function is the function."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_Compiled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Compiled",
    .tp_basicsize = sizeof(Compiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = Compiled_new,
    .tp_dealloc = (destructor)Compiled_dealloc,
    .tp_traverse = (traverseproc)Compiled_traverse,
    .tp_clear = (inquiry)Compiled_clear,
    .tp_repr = (reprfunc)Compiled_repr,
    .tp_getattro = Compiled_getattro,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_descr_get = Compiled_descr_get,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Compiled, vectorcall),
    .tp_dictoffset = offsetof(Compiled, dict),
    .tp_weaklistoffset = offsetof(Compiled, weakrefs),
    .tp_members = Compiled_members,
    .tp_getset = Compiled_getset,
    .tp_methods = Compiled_methods,
};
