/* Definitions: what names meant when code was traced. Entries of dicts that modules keep their globals in, attributes found along the
 * bases of classes, and fields of functions.
 *
 * A check compares one word per holder: the version of the dict, the version tag of the class (CPython changes it whenever the class or a
 * base of it is changed), the field of the function. Only where a word differs are the facts of that holder looked up again, and if they
 * still hold, the new word is remembered. */
#include "core.h"
#include <structmember.h>

typedef enum { IN_DICT, IN_CLASS, IN_OWN, IN_BASES, IN_FUNCTION, HOLDER_KINDS } HolderKind;
static const char *const kind_names[HOLDER_KINDS] = {"dict", "class", "own", "bases", "function"};

/* `key`, among the bases of a class a position in its order of lookup, is found to be `want`, or not found (NULL). With `of`, what is found is of that very class; and with `part`, `want` is that attribute of it. */
typedef struct {
    PyObject *key, *part;
    PyTypeObject *of;
    const void *want;
} Fact;

typedef struct {
    HolderKind kind;
    PyObject *holder;        /* borrowed from the spec, or the referent of a weak reference in it, which outlives the use of this object */
    Fact *facts;
    Py_ssize_t n;
} Holder;

typedef struct {
    const uint64_t *at;
    uint64_t want;
} DictWord;

typedef struct {
    const unsigned int *at;
    unsigned int want;
} ClassWord;

typedef struct {
    PyObject_HEAD
    PyObject *spec;
    Holder *holders;         /* dicts first, then classes, then functions */
    DictWord *dicts;
    ClassWord *classes;
    Py_ssize_t n, ndicts, nclasses;
} Definitions;

/* What a reference in a spec stands for: the object itself, or of an instance of a subclass of weakref.ref its referent. NULL: dead. */
PyObject *dd_referent(PyObject *given)
{
    if (!PyWeakref_CheckRef(given) || PyWeakref_CheckRefExact(given))
        return given;
#if DD_HAS_WEAKREF_GETREF
    PyObject *referent = NULL;
    if (PyWeakref_GetRef(given, &referent) < 0)
        PyErr_Clear();
    Py_XDECREF(referent); /* whoever made the reference sees to it that nothing here is used once it is dead */
    return referent;
#else
    PyObject *referent = PyWeakref_GET_OBJECT(given);
    return referent == Py_None ? NULL : referent;
#endif
}

static const uint64_t no_version = 1; /* never wanted: a dict without a version of its own is looked at in every check */

/* 1 holds, 0 not, -1 error set. */
static int fact_holds(const Fact *fact, PyObject *found)
{
    if (!fact->of)
        return found == fact->want;
    if (!found || Py_TYPE(found) != fact->of)
        return 0;
    if (!fact->part)
        return 1;
    Py_INCREF(found);
    PyObject *part = PyObject_GetAttr(found, fact->part);
    Py_DECREF(found);
    int ok = part ? part == fact->want : -1;
    Py_XDECREF(part);
    return ok;
}

static int holder_holds(const Holder *h)
{
    for (Py_ssize_t i = 0; i < h->n; i++) {
        const Fact *fact = &h->facts[i];
        PyObject *found, *owned = NULL;
        if (h->kind == IN_FUNCTION)
            found = owned = PyObject_GetAttr(h->holder, fact->key);
        else if (h->kind == IN_BASES) {
            PyObject *mro = ((PyTypeObject *)h->holder)->tp_mro;
            Py_ssize_t at = PyLong_AsSsize_t(fact->key);
            found = mro && at >= 0 && at < PyTuple_GET_SIZE(mro) ? PyTuple_GET_ITEM(mro, at) : NULL;
        } else if (h->kind == IN_CLASS)
            found = _PyType_Lookup((PyTypeObject *)h->holder, fact->key);
        else
            found = PyDict_GetItemWithError(h->kind == IN_OWN ? ((PyTypeObject *)h->holder)->tp_dict : h->holder, fact->key);
        int ok = !found && PyErr_Occurred() ? -1 : fact_holds(fact, found);
        Py_XDECREF(owned);
        if (ok != 1)
            return ok;
    }
    return 1;
}

/* The words are read before the facts are looked up, so a change in between shows the next time. */
static int look_up(Definitions *self, Py_ssize_t i)
{
    Holder *h = &self->holders[i];
    if (i < self->ndicts) {
        uint64_t now = *self->dicts[i].at;
        int ok = holder_holds(h);
        if (ok == 1 && self->dicts[i].at != &no_version)
            self->dicts[i].want = now;
        return ok;
    }
    if (i < self->ndicts + self->nclasses) {
        ClassWord *word = &self->classes[i - self->ndicts];
        if (h->n) /* gives the class a tag if it has none */
            _PyType_Lookup((PyTypeObject *)h->holder, h->kind == IN_BASES ? ((PyHeapTypeObject *)h->holder)->ht_name : h->facts[0].key);
        unsigned int now = *word->at;
        int ok = holder_holds(h);
        if (ok == 1)
            word->want = now;
        return ok;
    }
    return holder_holds(h);
}

/* 1 all names mean what they meant, 0 not, -1 error set. */
int dd_defined_check(PyObject *definitions)
{
    Definitions *self = (Definitions *)definitions;
    int ok = 1;
    for (Py_ssize_t i = 0; i < self->ndicts; i++)
        if (*self->dicts[i].at != self->dicts[i].want && (ok = look_up(self, i)) != 1)
            return ok;
    for (Py_ssize_t i = 0; i < self->nclasses; i++) {
        unsigned int now = *self->classes[i].at;
        if ((now != self->classes[i].want || !now) && (ok = look_up(self, self->ndicts + i)) != 1)
            return ok;
    }
    for (Py_ssize_t i = self->ndicts + self->nclasses; i < self->n; i++) {
        const Holder *h = &self->holders[i];
        for (Py_ssize_t k = 0; k < h->n; k++) {
            PyFunctionObject *fn = (PyFunctionObject *)h->holder;
            if (fn->func_code != h->facts[k].want)
                return 0;
        }
    }
    return 1;
}

/* ---- making ---- */

static int read_fact(PyObject *spec, Fact *fact, HolderKind kind)
{
    Py_ssize_t n = PyTuple_Check(spec) ? PyTuple_GET_SIZE(spec) : 0;
    bool is_place = kind == IN_BASES;
    if ((n != 1 && n != 2 && (n != 4 || is_place)) ||
        !(is_place ? PyLong_CheckExact(PyTuple_GET_ITEM(spec, 0)) : PyUnicode_CheckExact(PyTuple_GET_ITEM(spec, 0))) ||
        (kind == IN_FUNCTION && (n != 2 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(spec, 0), "__code__") != 0)) ||
        (n == 4 && (!PyType_Check(PyTuple_GET_ITEM(spec, 1)) ||
                    (PyTuple_GET_ITEM(spec, 2) != Py_None && !PyUnicode_Check(PyTuple_GET_ITEM(spec, 2)))))) {
        PyErr_Format(PyExc_TypeError, "Definitions: a fact is (name,), (name, object) or (name, class, attribute or None, object), got %R", spec);
        return -1;
    }
    fact->key = PyTuple_GET_ITEM(spec, 0);
    if (n == 2)
        fact->want = dd_referent(PyTuple_GET_ITEM(spec, 1));
    if (n == 4) {
        fact->of = (PyTypeObject *)PyTuple_GET_ITEM(spec, 1);
        fact->part = PyTuple_GET_ITEM(spec, 2) == Py_None ? NULL : PyTuple_GET_ITEM(spec, 2);
        fact->want = dd_referent(PyTuple_GET_ITEM(spec, 3));
    }
    if (n > 1 && !fact->want)
        fact->want = fact; /* it has died: no object is at this address */
    return 0;
}

static int read_holder(PyObject *spec, Holder *h)
{
    PyObject *kind, *holder, *facts;
    if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "UOO!:Definitions", &kind, &holder, &PyTuple_Type, &facts)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "Definitions: a holder is (kind, object, facts), got %R", spec);
        return -1;
    }
    int k = 0;
    while (k < HOLDER_KINDS && PyUnicode_CompareWithASCIIString(kind, kind_names[k]) != 0)
        k++;
    h->kind = (HolderKind)k;
    h->holder = dd_referent(holder);
    bool fits = h->holder && (k == IN_DICT ? PyDict_Check(h->holder) : k == IN_FUNCTION ? PyFunction_Check(h->holder) : k != HOLDER_KINDS && PyType_Check(h->holder));
    if (!fits) {
        PyErr_Format(PyExc_TypeError, "Definitions: %R is not a live holder of kind %R", holder, kind);
        return -1;
    }
    h->facts = PyMem_Calloc((size_t)PyTuple_GET_SIZE(facts) + 1, sizeof(Fact));
    if (!h->facts) {
        PyErr_NoMemory();
        return -1;
    }
    for (; h->n < PyTuple_GET_SIZE(facts); h->n++)
        if (read_fact(PyTuple_GET_ITEM(facts, h->n), &h->facts[h->n], h->kind) < 0)
            return -1;
    return 0;
}

static int order_of(HolderKind kind)
{
    return kind == IN_DICT ? 0 : kind == IN_FUNCTION ? 2 : 1;
}

static PyObject *Definitions_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"holders", NULL};
    PyObject *spec;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Definitions", names, &PyTuple_Type, &spec))
        return NULL;
    Definitions *self = (Definitions *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    size_t room = (size_t)PyTuple_GET_SIZE(spec) + 1;
    self->spec = Py_NewRef(spec);
    self->holders = PyMem_Calloc(room, sizeof(Holder));
    self->dicts = PyMem_Calloc(room, sizeof(DictWord));
    self->classes = PyMem_Calloc(room, sizeof(ClassWord));
    if (!self->holders || !self->dicts || !self->classes) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (int order = 0; order < 3; order++)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(spec); i++) {
            Holder h = {0};
            int bad = read_holder(PyTuple_GET_ITEM(spec, i), &h);
            if (bad || order_of(h.kind) != order)
                PyMem_Free(h.facts);
            if (bad) {
                Py_DECREF(self);
                return NULL;
            }
            if (order_of(h.kind) != order)
                continue;
            self->holders[self->n++] = h;
            if (order == 0) {
                const uint64_t *word = dd_version_of(h.holder);
                self->dicts[self->ndicts++] = (DictWord){word ? word : &no_version, 0}; /* nor is 0 a version: the first check looks all up */
            }
            if (order == 1)
                self->classes[self->nclasses++] = (ClassWord){&((PyTypeObject *)h.holder)->tp_version_tag, 0};
        }
    return (PyObject *)self;
}

static int Definitions_traverse(Definitions *self, visitproc visit, void *arg)
{
    Py_VISIT(self->spec);
    return 0;
}

static void Definitions_dealloc(Definitions *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->n; i++)
        PyMem_Free(self->holders[i].facts);
    PyMem_Free(self->holders);
    PyMem_Free(self->dicts);
    PyMem_Free(self->classes);
    Py_XDECREF(self->spec);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *Definitions_check(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    int ok = dd_defined_check(self);
    return ok < 0 ? NULL : PyBool_FromLong(ok);
}

/* The first name that means something else, as "holder.name"; '' if none does. */
static PyObject *Definitions_why(Definitions *self, PyObject *Py_UNUSED(ignored))
{
    for (Py_ssize_t i = 0; i < self->n; i++) {
        const Holder *h = &self->holders[i];
        for (Py_ssize_t k = 0; k < h->n; k++) {
            const Holder one = {h->kind, h->holder, &h->facts[k], 1};
            int ok = holder_holds(&one);
            if (ok < 0)
                return NULL;
            if (ok)
                continue;
            PyObject *owner = NULL, *text;
            if (h->kind == IN_DICT)
                owner = Py_XNewRef(PyDict_GetItemString(h->holder, "__name__"));
            else
                owner = PyObject_GetAttrString(h->holder, "__qualname__");
            PyErr_Clear();
            if (h->kind == IN_BASES) {
                text = owner ? PyUnicode_FromFormat("%S.__mro__", owner) : PyUnicode_FromString("__mro__");
                Py_XDECREF(owner);
                return text;
            }
            text = owner ? PyUnicode_FromFormat("%S.%S", owner, h->facts[k].key) : PyUnicode_FromFormat("%S", h->facts[k].key);
            Py_XDECREF(owner);
            return text;
        }
    }
    return PyUnicode_FromString("");
}

static PyMemberDef Definitions_members[] = {
    {"holders", T_OBJECT, offsetof(Definitions, spec), READONLY, "the tuple it was made from"},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef Definitions_methods[] = {
    {"check", Definitions_check, METH_NOARGS, "check($self, /)\n--\n\nWhether every name means what it meant."},
    {"why", (PyCFunction)Definitions_why, METH_NOARGS, "why($self, /)\n--\n\n'' if so, else the first name that doesn't."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_Definitions_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.Definitions",
    .tp_doc = "Definitions(holders)\n--\n\nWhat names in dicts, classes and functions meant; see dynamo/_C.pyi.",
    .tp_basicsize = sizeof(Definitions),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Definitions_new,
    .tp_dealloc = (destructor)Definitions_dealloc,
    .tp_traverse = (traverseproc)Definitions_traverse,
    .tp_methods = Definitions_methods,
    .tp_members = Definitions_members,
};
