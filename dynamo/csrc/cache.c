/* Entry: one compiled variant. Cache: the entries of one code object, most recently hit first. */
#include "core.h"
#include <structmember.h>

/* ---- Entry ---- */

static PyObject *Entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "fn", "info", NULL};
    PyObject *guards, *fn, *info = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O:Entry", names, &dd_GuardTree_Type, &guards, &fn, &info))
        return NULL;
    if (!PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "Entry: fn must be callable, not %.100s", Py_TYPE(fn)->tp_name);
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->guards = (GuardTree *)Py_NewRef(guards);
    self->fn = Py_NewRef(fn);
    self->info = Py_NewRef(info);
    return (PyObject *)self;
}

static int Entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->guards);
    Py_VISIT(self->fn);
    Py_VISIT(self->info);
    return 0;
}

/* guards and fn stay: a running lookup may still read them; breaking info and the cache's tuple breaks the cycles. */
static int Entry_clear(Entry *self)
{
    Py_CLEAR(self->info);
    return 0;
}

static void Entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_XDECREF(self->guards);
    Py_XDECREF(self->fn);
    Py_XDECREF(self->info);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Entry_members[] = {
    {"guards", T_OBJECT, offsetof(Entry, guards), READONLY, "the GuardTree that must hold"},
    {"fn", T_OBJECT, offsetof(Entry, fn), READONLY, "called as fn(*inputs)"},
    {"info", T_OBJECT, offsetof(Entry, info), 0, "the Python-side record of this variant"},
    {"hits", T_PYSSIZET, offsetof(Entry, hits), 0, "how often it was served"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dd_Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Entry",
    .tp_doc = "Entry(guards, fn, info=None)\n--\n\nOne compiled variant of a code object.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Entry_new,
    .tp_dealloc = (destructor)Entry_dealloc,
    .tp_traverse = (traverseproc)Entry_traverse,
    .tp_clear = (inquiry)Entry_clear,
    .tp_weaklistoffset = offsetof(Entry, weakrefs),
    .tp_members = Entry_members,
};

/* ---- Cache ---- */

static PyObject *Cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", NULL};
    PyObject *code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Cache", names, &PyCode_Type, &code))
        return NULL;
    Cache *self = (Cache *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->code = Py_NewRef(code);
    self->entries = PyTuple_New(0);
    if (!self->entries)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Puts a tuple of the current entries, without `drop`, and with `front` first, in place of the current one. */
static int replace(Cache *self, PyObject *front, PyObject *drop)
{
    PyObject *old = Py_NewRef(self->entries);
    Py_ssize_t n = PyTuple_GET_SIZE(old), kept = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        kept += PyTuple_GET_ITEM(old, i) != drop && PyTuple_GET_ITEM(old, i) != front;
    PyObject *made = PyTuple_New(kept + (front != NULL));
    if (!made || self->entries != old) {
        Py_DECREF(old);
        if (!made)
            return -1;
        Py_DECREF(made); /* the allocation ran the garbage collector, and that ran user code that changed the cache */
        return replace(self, front, drop);
    }
    Py_ssize_t to = 0;
    if (front)
        PyTuple_SET_ITEM(made, to++, Py_NewRef(front));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *entry = PyTuple_GET_ITEM(old, i);
        if (entry != drop && entry != front)
            PyTuple_SET_ITEM(made, to++, Py_NewRef(entry));
    }
    Py_SETREF(self->entries, made);
    Py_DECREF(old);
    return 0;
}

Entry *dd_cache_find(Cache *self, PyObject *const *inputs, Py_ssize_t n)
{
    PyObject *entries = Py_NewRef(self->entries);
    Entry *found = NULL;
    Py_ssize_t size = PyTuple_GET_SIZE(entries);
    for (Py_ssize_t i = 0; i < size; i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        int ok = dd_guards_check(entry->guards, inputs, n);
        if (ok < 0)
            break;
        if (!ok)
            continue;
        found = (Entry *)Py_NewRef(entry);
        entry->hits++;
        /* Only if nobody changed the entries meanwhile: a removed entry must not come back. */
        if (i > 0 && self->entries == entries && replace(self, (PyObject *)entry, NULL) < 0)
            PyErr_Clear(); /* no memory for a better order: the order is only a preference */
        break;
    }
    Py_DECREF(entries);
    return found;
}

static PyObject *Cache_add(Cache *self, PyObject *entry)
{
    if (!Py_IS_TYPE(entry, &dd_Entry_Type))
        return PyErr_Format(PyExc_TypeError, "Cache.add: expected an Entry, not %.100s", Py_TYPE(entry)->tp_name);
    if (replace(self, entry, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *Cache_remove(Cache *self, PyObject *entry)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->entries); i++) {
        if (PyTuple_GET_ITEM(self->entries, i) != entry)
            continue;
        if (replace(self, NULL, entry) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    return PyErr_Format(PyExc_ValueError, "Cache.remove: this entry is not in the cache");
}

static int Cache_clear(Cache *self)
{
    PyObject *empty = PyTuple_New(0);
    if (!empty)
        return -1;
    Py_SETREF(self->entries, empty);
    return 0;
}

static PyObject *Cache_clear_method(Cache *self, PyObject *Py_UNUSED(ignored))
{
    if (Cache_clear(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int Cache_set_mode(Cache *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Cache.mode can't be deleted");
        return -1;
    }
    long mode = PyLong_AsLong(value);
    if (mode == -1 && PyErr_Occurred())
        return -1;
    if (mode < DD_ACTIVE || mode > DD_SKIP) {
        PyErr_Format(PyExc_ValueError, "Cache.mode: %ld is not one of Cache.ACTIVE, Cache.RUN_ONLY, Cache.SKIP", mode);
        return -1;
    }
    self->mode = (int)mode;
    return 0;
}

static PyObject *Cache_get_mode(Cache *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(self->mode);
}

static int Cache_traverse(Cache *self, visitproc visit, void *arg)
{
    Py_VISIT(self->code);
    Py_VISIT(self->entries);
    return 0;
}

static void Cache_dealloc(Cache *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_XDECREF(self->code);
    Py_XDECREF(self->entries);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef Cache_members[] = {
    {"code", T_OBJECT, offsetof(Cache, code), READONLY, "the code object"},
    {"entries", T_OBJECT, offsetof(Cache, entries), READONLY, "tuple of Entry, most recently hit first"},
    {"misses", T_PYSSIZET, offsetof(Cache, misses), 0, "calls that found no entry and did not compile one"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef Cache_getset[] = {
    {"mode", (getter)Cache_get_mode, (setter)Cache_set_mode, "what a call that finds no entry does: ACTIVE, RUN_ONLY or SKIP", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef Cache_methods[] = {
    {"add", (PyCFunction)Cache_add, METH_O, "add($self, entry, /)\n--\n\nPut an entry first."},
    {"remove", (PyCFunction)Cache_remove, METH_O, "remove($self, entry, /)\n--\n\nTake an entry out; ValueError if it is not there."},
    {"clear", (PyCFunction)Cache_clear_method, METH_NOARGS, "clear($self, /)\n--\n\nTake all entries out."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_Cache_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Cache",
    .tp_doc = "Cache(code)\n--\n\nThe entries of one code object under one compile context, most recently hit first.",
    .tp_basicsize = sizeof(Cache),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Cache_new,
    .tp_dealloc = (destructor)Cache_dealloc,
    .tp_traverse = (traverseproc)Cache_traverse,
    .tp_clear = (inquiry)Cache_clear,
    .tp_weaklistoffset = offsetof(Cache, weakrefs),
    .tp_members = Cache_members,
    .tp_getset = Cache_getset,
    .tp_methods = Cache_methods,
};
