/* From node tuples to the compiled guard tree: checks the tuples, and decides what may be remembered between calls. */
#include "guards.h"

static int find(PyObject *name, const KindRow *rows, int count, const char *what)
{
    if (PyUnicode_Check(name))
        for (int i = 0; i < count; i++)
            if (PyUnicode_CompareWithASCIIString(name, rows[i].name) == 0)
                return i;
    PyErr_Format(PyExc_ValueError, "guard tree: unknown %s %R", what, name);
    return -1;
}

static bool immutable_constant(PyObject *value)
{
    if (value == Py_None || PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value) || PyComplex_CheckExact(value) ||
        PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || value == Py_Ellipsis)
        return true;
    if (!PyTuple_CheckExact(value))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
        if (!immutable_constant(PyTuple_GET_ITEM(value, i)))
            return false;
    return true;
}

/* Whether looking this key up may call Python code. */
static bool key_runs_user_code(PyObject *key)
{
    return !immutable_constant(key) && (Py_TYPE(key)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
           (Py_TYPE(key)->tp_hash != PyBaseObject_Type.tp_hash || Py_TYPE(key)->tp_richcompare != PyBaseObject_Type.tp_richcompare);
}

/* Whether comparing with this value may call Python code: a class made in Python with its own __eq__, or a container of anything. */
static bool eq_runs_user_code(PyObject *value)
{
    if (immutable_constant(value))
        return false;
    if (PyTuple_Check(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
            if (eq_runs_user_code(PyTuple_GET_ITEM(value, i)))
                return true;
        return false;
    }
    PyTypeObject *type = Py_TYPE(value);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        return type->tp_richcompare != PyBaseObject_Type.tp_richcompare;
    return PyAnySet_Check(value) || PyList_Check(value) || PyDict_Check(value) || PySlice_Check(value);
}

enum { MOST_GROUPS = 1 << 24 };

/* What is read of an argument once. */
typedef struct {
    PyObject *want;
    Py_ssize_t n;
    bool fixed, user;
} Argument;

static bool read_number(PyObject *arg, Py_ssize_t most, Argument *a)
{
    a->n = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
    if (a->n < 0)
        PyErr_Clear();
    return a->n >= 0 && a->n <= most;
}

static bool read_key(PyObject *arg, Argument *a)
{
    a->user = key_runs_user_code(arg);
    return PyObject_Hash(arg) != -1;
}

static bool read_value(PyObject *arg, Argument *a)
{
    a->fixed = immutable_constant(arg);
    a->user = eq_runs_user_code(arg);
    return true;
}

static bool read_facts(PyObject *arg, Argument *a)
{
    a->user = !dd_facts_raw(arg);
    return true;
}

static bool fits(ArgumentKind kind, PyObject *arg, Argument *a)
{
    switch (kind) {
#define CHECK(name, words, check) \
    case ARGUMENT_##name:         \
        return check;
        DD_ARGUMENTS(CHECK)
#undef CHECK
    }
    Py_UNREACHABLE();
}

static int read_argument(const KindRow *row, const char *what, PyObject *arg, Argument *a)
{
    *a = (Argument){.want = dd_referent(arg)};
    if (!fits(row->argument, arg, a)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "guard tree: %s \"%s\" takes %s, not %R", what, row->name, dd_argument_words[row->argument], arg);
        return -1;
    }
    a->user |= row->flags & RUNS_CODE;
    return 0;
}

static int build_leaf(PyObject *spec, Leaf *leaf, bool *user)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 3 || !PyLong_Check(PyTuple_GET_ITEM(spec, 0))) {
        PyErr_Format(PyExc_TypeError, "guard tree: a leaf is (guard_id, kind, arg), got %R", spec);
        return -1;
    }
    Argument a;
    PyObject *arg = PyTuple_GET_ITEM(spec, 2);
    int kind = find(PyTuple_GET_ITEM(spec, 1), dd_leaves, LEAVES, "leaf");
    if (kind < 0)
        return -1;
    leaf->id = PyLong_AsLongLong(PyTuple_GET_ITEM(spec, 0));
    if ((leaf->id == -1 && PyErr_Occurred()) || read_argument(&dd_leaves[kind], "leaf", arg, &a) < 0)
        return -1;
    leaf->kind = (LeafKind)kind;
    leaf->want = a.want;
    leaf->n = a.n;
    leaf->fixed = a.fixed;
    leaf->arg = Py_NewRef(arg);
    *user |= a.user;
    return 0;
}

static int build_accessor(GuardNode *node, PyObject *arg)
{
    Argument a;
    if (read_argument(&dd_accessors[node->accessor], "accessor", arg, &a) < 0)
        return -1;
    node->index = a.n;
    node->user = a.user;
    node->arg = Py_NewRef(arg);
    node->obj = a.want;
    if (PyUnicode_CheckExact(arg))
        PyUnicode_InternInPlace(&node->arg); /* names in dicts are interned: lookups then compare addresses */
    return 0;
}

static void release(GuardNode *node)
{
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        Py_XDECREF(node->leaves[i].arg);
    for (Py_ssize_t i = 0; i < node->nkids; i++)
        release(&node->kids[i]);
    PyMem_Free(node->leaves);
    PyMem_Free(node->kids);
    Py_XDECREF(node->arg);
    dd_flat_free(node->flat);
}

static bool reads_dicts(const GuardNode *node)
{
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        if (dd_leaves[node->leaves[i].kind].flags & READS_DICT)
            return true;
    for (Py_ssize_t i = 0; i < node->nkids; i++)
        if (node->kids[i].worth || dd_accessors[node->kids[i].accessor].flags & READS_DICT)
            return true;
    return false;
}

static int build(GuardNode *node, PyObject *spec, bool is_root, GuardCounts *counts)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 4 || !PyTuple_Check(PyTuple_GET_ITEM(spec, 2)) || !PyTuple_Check(PyTuple_GET_ITEM(spec, 3))) {
        PyErr_Format(PyExc_TypeError, "guard tree: a node is (accessor, arg, leaves, children), got %R", spec);
        return -1;
    }
    PyObject *leaves = PyTuple_GET_ITEM(spec, 2), *kids = PyTuple_GET_ITEM(spec, 3);
    int accessor = find(PyTuple_GET_ITEM(spec, 0), dd_accessors, ACCESSORS, "accessor");
    if (accessor < 0)
        return -1;
    if (is_root != (accessor == ACCESSOR_root)) {
        PyErr_SetString(PyExc_ValueError, "guard tree: the outermost node, and only it, is \"root\"");
        return -1;
    }
    node->accessor = (Accessor)accessor;
    if (build_accessor(node, PyTuple_GET_ITEM(spec, 1)) < 0)
        return -1;
    node->leaves = PyMem_Calloc((size_t)PyTuple_GET_SIZE(leaves) + 1, sizeof(Leaf));
    node->kids = PyMem_Calloc((size_t)PyTuple_GET_SIZE(kids) + 1, sizeof(GuardNode));
    if (!node->leaves || !node->kids) {
        PyErr_NoMemory();
        return -1;
    }
    for (; node->nleaves < PyTuple_GET_SIZE(leaves); node->nleaves++) {
        Leaf *leaf = &node->leaves[node->nleaves];
        if (build_leaf(PyTuple_GET_ITEM(leaves, node->nleaves), leaf, &node->user) < 0)
            return -1;
        uint8_t flags = dd_leaves[leaf->kind].flags;
        counts->distinct += leaf->kind == LEAF_distinct;
        if (leaf->kind == LEAF_same && leaf->n >= counts->groups)
            counts->groups = leaf->n + 1;
        node->noted |= flags & NOTED;
        if (flags & AT_ROOT && !is_root) {
            node->nleaves++;
            PyErr_Format(PyExc_ValueError, "guard tree: leaf \"%s\" belongs to the root", dd_leaves[leaf->kind].name);
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kids); i++) {
        GuardNode *kid = &node->kids[node->nkids++];
        if (Py_EnterRecursiveCall(" while building a guard tree"))
            return -1;
        int bad = build(kid, PyTuple_GET_ITEM(kids, i), false, counts);
        Py_LeaveRecursiveCall();
        if (bad < 0)
            return -1;
        if (kid->accessor == ACCESSOR_input && !is_root) {
            PyErr_SetString(PyExc_ValueError, "guard tree: accessor \"input\" belongs directly under the root");
            return -1;
        }
        node->user |= kid->user;
        node->noted |= kid->noted;
    }
    node->worth = !is_root && !node->user && reads_dicts(node);
    return 0;
}

GuardNode *dd_build(PyObject *spec, GuardCounts *counts)
{
    GuardNode *root = PyMem_Calloc(1, sizeof(GuardNode));
    *counts = (GuardCounts){0, 0};
    if (!root)
        return (GuardNode *)PyErr_NoMemory();
    if (build(root, spec, true, counts) < 0) {
        dd_free_node(root);
        return NULL;
    }
    return root;
}

void dd_free_node(GuardNode *root)
{
    if (!root)
        return;
    release(root);
    PyMem_Free(root);
}

int dd_visit_node(GuardNode *node, visitproc visit, void *arg)
{
    Py_VISIT(node->arg);
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        Py_VISIT(node->leaves[i].arg);
    int seen = dd_flat_visit(node->flat, visit, arg);
    if (seen)
        return seen;
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        int stop = dd_visit_node(&node->kids[i], visit, arg);
        if (stop)
            return stop;
    }
    return 0;
}
