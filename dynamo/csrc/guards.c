/* GuardTree: evaluation of compiled guard trees, and explain(). */
#include "guards.h"
#include <time.h>

static PyObject *inputs_object(Walk *w)
{
    if (!w->tuple)
        w->tuple = dd_tuple_of(w->inputs, w->n);
    return w->tuple;
}

/* Apart from the switch over the kinds of leaves, most of which then need no stack. */
#define APART static __attribute__((noinline)) int

/* Exactly these keys in this order. An OrderedDict keeps its order outside the dict, behind its own iterator. */
APART keys_are(PyObject *obj, PyObject *keys)
{
    Py_ssize_t n = PyTuple_GET_SIZE(keys), i = 0, pos = 0;
    PyObject *key;
    if (!PyDict_Check(obj) || ((PyDictObject *)obj)->ma_used != n)
        return 0;
    if (!n)
        return 1;
    if (!PyODict_Check(obj)) {
        int ok = 1;
        while (ok == 1 && PyDict_Next(obj, &pos, &key, NULL))
            ok = i < n ? dd_strict_eq(key, PyTuple_GET_ITEM(keys, i++)) : 0;
        return ok;
    }
    PyObject *iterator = PyODict_Type.tp_iter(obj);
    int ok = iterator ? 1 : -1;
    while (ok == 1 && (key = PyIter_Next(iterator))) {
        ok = i < n ? dd_strict_eq(key, PyTuple_GET_ITEM(keys, i++)) : 0;
        Py_DECREF(key);
    }
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? -1 : ok;
}

APART has_key(PyObject *obj, PyObject *key, bool wanted)
{
    int has = PyDict_Check(obj) ? PyDict_Contains(obj, key) : !wanted;
    return has < 0 ? -1 : has == wanted;
}

APART lacks_attribute(PyObject *obj, PyObject *name)
{
    PyObject *dict = dd_inst_dict(obj);
    return dict ? has_key(dict, name, false) : 1;
}

APART call_predicate(PyObject *predicate, PyObject *obj)
{
    PyObject *result = PyObject_CallOneArg(predicate, obj);
    int truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return truth;
}

static int note_distinct(Walk *w, PyObject *obj)
{
    w->distinct[w->ndistinct++] = obj;
    return 1;
}

static int is_same(Walk *w, Py_ssize_t group, PyObject *obj)
{
    if (!w->same[group])
        w->same[group] = obj;
    return w->same[group] == obj;
}

static int leaf_check(Walk *w, const Leaf *leaf, PyObject *obj)
{
    switch (leaf->kind) {
#define HOLDS(name, argument, flags, holds, words) \
    case LEAF_##name:                              \
        return holds;
        DD_LEAVES(HOLDS)
#undef HOLDS
    }
    Py_UNREACHABLE();
}

/* The object of `node` from its parent's: 1 found, 0 not there, -1 error set. */
static int fetch(Walk *w, const GuardNode *node, PyObject *parent, PyObject **out, bool *owned)
{
    PyObject *found = NULL;
    switch (node->accessor) {
#define FIND(name, argument, flags, object, words) \
    case ACCESSOR_##name:                          \
        found = object;                            \
        *owned = (flags) & RUNS_CODE;              \
        break;
        DD_ACCESSORS(FIND)
#undef FIND
    }
    *out = found;
    return found ? 1 : PyErr_Occurred() ? -1 : 0;
}

static int kid_check(Walk *w, GuardNode *kid, PyObject *parent);

static int check_node(Walk *w, GuardNode *node, PyObject *obj)
{
    int ok;
    bool head = node->worth && !w->covered;
    if (head && node->flat && (ok = dd_flat_check(w, node, obj)) != DD_STALE)
        return ok;
    w->covered |= head && !node->wait;
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        if ((ok = leaf_check(w, &node->leaves[i], obj)) != 1)
            return ok;
    for (Py_ssize_t i = 0; i < node->nkids; i++)
        if ((ok = kid_check(w, &node->kids[i], obj)) != 1)
            return ok;
    if (head) {
        w->covered = false;
        dd_flat_settle(w, node, obj);
    }
    return 1;
}

/* Something made for this walk lives to its end: nothing else may get the address that a leaf has noted down. */
static int keep(Walk *w, PyObject *made)
{
    if (!w->kept && !(w->kept = PyList_New(0)))
        return -1;
    return PyList_Append(w->kept, made);
}

static int kid_check(Walk *w, GuardNode *kid, PyObject *parent)
{
    PyObject *found;
    bool owned;
    int ok = fetch(w, kid, parent, &found, &owned);
    if (ok != 1)
        return ok;
    if (!owned && kid->user) { /* user code may drop what holds this object */
        Py_INCREF(found);
        owned = true;
    }
    ok = check_node(w, kid, found);
    if (owned) {
        if (kid->noted && Py_REFCNT(found) == 1 && keep(w, found) < 0)
            ok = -1;
        Py_DECREF(found);
    }
    return ok;
}

static int address_order(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* Whether the collected addresses are pairwise different. Mostly they are the ones of the last call. */
static int all_distinct(GuardTree *tree, Walk *w)
{
    size_t bytes = (size_t)w->ndistinct * sizeof(PyObject *);
    if (w->ndistinct == tree->counts.distinct && memcmp(w->distinct, tree->distinct_ok, bytes) == 0)
        return 1;
    PyObject **sorted = PyMem_Malloc(bytes + 1);
    if (!sorted) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(sorted, w->distinct, bytes);
    qsort(sorted, (size_t)w->ndistinct, sizeof(PyObject *), address_order);
    int ok = 1;
    for (Py_ssize_t i = 1; ok && i < w->ndistinct; i++)
        ok = sorted[i] != sorted[i - 1];
    if (ok && w->ndistinct == tree->counts.distinct)
        memcpy(tree->distinct_ok, w->distinct, bytes);
    PyMem_Free(sorted);
    return ok;
}

static int check_root(GuardTree *tree, Walk *w)
{
    GuardNode *root = tree->root;
    int ok;
    for (Py_ssize_t i = 0; i < root->nleaves; i++) {
        PyObject *obj = dd_leaves[root->leaves[i].kind].flags & AT_ROOT ? NULL : inputs_object(w);
        if ((ok = leaf_check(w, &root->leaves[i], obj)) != 1)
            return ok;
    }
    for (Py_ssize_t i = 0; i < root->nkids; i++) {
        GuardNode *kid = &root->kids[i];
        PyObject *obj = kid->accessor == ACCESSOR_input || kid->accessor == ACCESSOR_const ? NULL : inputs_object(w);
        if ((ok = kid_check(w, kid, obj)) != 1)
            return ok;
    }
    return w->ndistinct > 1 ? all_distinct(tree, w) : 1;
}

/* Room for what "same" and "distinct" leaves note down: where `w->same` points already if that is enough, else to be freed there. */
static int make_room(Walk *w, GuardCounts counts, Py_ssize_t have)
{
    if (counts.groups + counts.distinct > have && !(w->same = PyMem_New(PyObject *, counts.groups + counts.distinct))) {
        PyErr_NoMemory();
        return -1;
    }
    if (counts.groups)
        memset(w->same, 0, (size_t)counts.groups * sizeof(PyObject *));
    w->distinct = w->same + counts.groups;
    return 0;
}

int dd_guards_check(GuardTree *tree, PyObject *const *inputs, Py_ssize_t n)
{
    PyObject *small[64];
    Walk w = {.inputs = inputs, .n = n, .same = small, .leaf = leaf_check, .kid = kid_check};
    if (make_room(&w, tree->counts, 64) < 0)
        return -1;
    int ok = check_root(tree, &w);
    if (ok < 0 && dd_swallow())
        ok = 0;
    if (w.same != small)
        PyMem_Free(w.same);
    Py_XDECREF(w.tuple);
    Py_XDECREF(w.kept);
    if (w.garbage)
        dd_flat_free(w.garbage);
    return ok;
}

/* ---- explain ---- */

typedef struct {
    long long id;
    PyObject *seen; /* strong */
} Failure;

static long long first_leaf(const GuardNode *node)
{
    if (node->nleaves)
        return node->leaves[0].id;
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        long long id = first_leaf(&node->kids[i]);
        if (id != -1)
            return id;
    }
    return -1;
}

static PyObject *access_error(const GuardNode *node, PyObject *parent)
{
    PyObject *type, *value = NULL, *trace, *text;
    PyErr_Fetch(&type, &value, &trace);
    const char *name = dd_accessors[node->accessor].name, *of = parent ? Py_TYPE(parent)->tp_name : "inputs";
    if (value)
        text = PyUnicode_FromFormat("AccessError: %s %R of %.100s: %S", name, node->arg, of, value);
    else
        text = PyUnicode_FromFormat("AccessError: %s %R of %.100s is not there", name, node->arg, of);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return text;
}

/* 1: everything holds; 0: *failure filled; -1: error. `ids` names the leaf of each collected "distinct" object. What is found is kept. */
static int explain_node(Walk *w, GuardNode *node, PyObject *obj, Failure *failure, long long *ids)
{
    for (Py_ssize_t i = 0; i < node->nleaves; i++) {
        const Leaf *leaf = &node->leaves[i];
        int ok = leaf_check(w, leaf, obj);
        if (ok < 0 && !dd_swallow())
            return -1;
        if (leaf->kind == LEAF_distinct)
            ids[w->ndistinct - 1] = leaf->id;
        if (ok == 1)
            continue;
        failure->id = leaf->id;
        failure->seen = dd_leaves[leaf->kind].flags & AT_ROOT ? PyObject_CallMethod(leaf->arg, "why", NULL) : Py_NewRef(obj);
        return failure->seen ? 0 : -1;
    }
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        GuardNode *kid = &node->kids[i];
        PyObject *found;
        bool owned;
        int ok = fetch(w, kid, obj, &found, &owned);
        if (ok != 1) {
            if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
                return -1;
            failure->id = first_leaf(kid);
            failure->seen = access_error(kid, obj);
            return failure->seen ? 0 : -1;
        }
        if (!owned)
            Py_INCREF(found);
        if (keep(w, found) < 0 || Py_EnterRecursiveCall(" while explaining a guard"))
            ok = -1;
        else {
            ok = explain_node(w, kid, found, failure, ids);
            Py_LeaveRecursiveCall();
        }
        Py_DECREF(found);
        if (ok != 1)
            return ok;
    }
    return 1;
}

static PyObject *GuardTree_explain(GuardTree *self, PyObject *inputs)
{
    if (!PyTuple_Check(inputs))
        return PyErr_Format(PyExc_TypeError, "GuardTree.explain: inputs must be a tuple, not %.100s", Py_TYPE(inputs)->tp_name);
    PyObject *result = NULL;
    long long *ids = PyMem_New(long long, self->counts.distinct + 1);
    Walk w = {.inputs = ((PyTupleObject *)inputs)->ob_item, .n = PyTuple_GET_SIZE(inputs), .tuple = inputs};
    Failure failure = {-1, NULL};
    int ok = -1;
    if (!ids)
        PyErr_NoMemory();
    else if (make_room(&w, self->counts, -1) == 0)
        ok = explain_node(&w, self->root, inputs, &failure, ids);
    for (Py_ssize_t i = 1; ok == 1 && i < w.ndistinct; i++)
        for (Py_ssize_t j = 0; ok == 1 && j < i; j++)
            if (w.distinct[i] == w.distinct[j]) {
                failure = (Failure){ids[i], Py_NewRef(w.distinct[i])};
                ok = 0;
            }
    if (ok == 0)
        result = Py_BuildValue("(LN)", failure.id, failure.seen);
    else if (ok == 1)
        result = Py_NewRef(Py_None);
    Py_XDECREF(w.kept);
    PyMem_Free(w.same);
    PyMem_Free(ids);
    return result;
}

/* ---- cost ---- */

static double now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

/* Appends (guard_id, ns) for each leaf below node; `carried` is the time of reading objects that no leaf accounts for yet.
 * 1: all measured; 0: a guard failed, and what is below or after it was not measured; -1: error. */
static int cost_node(Walk *w, GuardNode *node, PyObject *obj, long n, PyObject *out, double *carried)
{
    int ok = 1;
    for (Py_ssize_t i = 0; i < node->nleaves; i++) {
        double start = now_ns();
        for (long k = 0; ok == 1 && k < n; k++) {
            w->ndistinct = 0;
            ok = leaf_check(w, &node->leaves[i], obj);
        }
        if (ok < 0)
            return -1;
        PyObject *row = Py_BuildValue("(Ld)", node->leaves[i].id, (now_ns() - start) / (double)n + *carried);
        *carried = 0;
        if (!row || PyList_Append(out, row) < 0)
            ok = -1;
        Py_XDECREF(row);
        if (ok != 1)
            return ok;
    }
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        GuardNode *kid = &node->kids[i];
        PyObject *found = NULL;
        double start = now_ns();
        for (long k = 0; ok == 1 && k < n; k++) {
            bool owned;
            Py_CLEAR(found);
            ok = fetch(w, kid, obj, &found, &owned);
            if (ok == 1 && !owned)
                Py_INCREF(found);
        }
        *carried += (now_ns() - start) / (double)n;
        if (ok == 1 && !Py_EnterRecursiveCall(" while measuring a guard")) {
            ok = cost_node(w, kid, found, n, out, carried);
            Py_LeaveRecursiveCall();
        }
        Py_XDECREF(found);
        if (ok != 1 || PyErr_Occurred())
            return PyErr_Occurred() ? -1 : ok;
    }
    return 1;
}

static PyObject *GuardTree_cost(GuardTree *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"inputs", "n", NULL};
    PyObject *inputs;
    long n = 1000;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|l:cost", names, &PyTuple_Type, &inputs, &n))
        return NULL;
    if (n < 1)
        return PyErr_Format(PyExc_ValueError, "GuardTree.cost: n must be at least 1, not %ld", n);
    PyObject *out = PyList_New(0);
    Walk w = {.inputs = ((PyTupleObject *)inputs)->ob_item, .n = PyTuple_GET_SIZE(inputs), .tuple = inputs};
    double carried = 0;
    if (out && (make_room(&w, self->counts, -1) < 0 || (cost_node(&w, self->root, inputs, n, out, &carried) < 0 && !dd_swallow())))
        Py_CLEAR(out);
    PyMem_Free(w.same);
    return out;
}

/* ---- the type ---- */

static PyObject *GuardTree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"root", NULL};
    PyObject *spec;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:GuardTree", names, &spec))
        return NULL;
    GuardTree *self = (GuardTree *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->root = dd_build(spec, &self->counts);
    self->distinct_ok = PyMem_Calloc((size_t)self->counts.distinct + 1, sizeof(PyObject *));
    if (self->root && self->distinct_ok)
        return (PyObject *)self;
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_DECREF(self);
    return NULL;
}

static PyObject *GuardTree_check(GuardTree *self, PyObject *inputs)
{
    if (!PyTuple_Check(inputs))
        return PyErr_Format(PyExc_TypeError, "GuardTree.check: inputs must be a tuple, not %.100s", Py_TYPE(inputs)->tp_name);
    int ok = dd_guards_check(self, ((PyTupleObject *)inputs)->ob_item, PyTuple_GET_SIZE(inputs));
    return ok < 0 ? NULL : PyBool_FromLong(ok);
}

static int GuardTree_traverse(GuardTree *self, visitproc visit, void *arg)
{
    return self->root ? dd_visit_node(self->root, visit, arg) : 0;
}

static void GuardTree_dealloc(GuardTree *self)
{
    PyObject_GC_UnTrack(self);
    dd_free_node(self->root);
    PyMem_Free(self->distinct_ok);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef GuardTree_methods[] = {
    {"check", (PyCFunction)GuardTree_check, METH_O, "check($self, inputs, /)\n--\n\nWhether every guard holds for these frame inputs."},
    {"explain", (PyCFunction)GuardTree_explain, METH_O,
     "explain($self, inputs, /)\n--\n\nThe first failing leaf as (guard_id, what was seen), None if all hold. An accessor that fails gives the first leaf\n"
     "below it and an \"AccessError: ...\" string; a failing \"state\" leaf gives its why()."},
    {"cost", (PyCFunction)(void (*)(void))GuardTree_cost, METH_VARARGS | METH_KEYWORDS,
     "cost($self, /, inputs, n=1000)\n--\n\n[(guard_id, ns)]: the mean of n checks of each leaf, in the given order and without what check() remembers\n"
     "between calls. The time to read an object counts for the first leaf on or below it. Ends at the first guard that fails."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_GuardTree_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.GuardTree",
    .tp_doc = "GuardTree(root)\n--\n\nGuards as a tree over frame inputs; the node tuples are described in dynamo/_C.pyi.",
    .tp_basicsize = sizeof(GuardTree),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = GuardTree_new,
    .tp_dealloc = (destructor)GuardTree_dealloc,
    .tp_traverse = (traverseproc)GuardTree_traverse,
    .tp_methods = GuardTree_methods,
};
