/* From node tuples to the compiled guard tree: checks the tuples, classifies leaves, and decides what may be remembered between calls. */
#include "guards.h"

const char *const dd_accessor_names[ACC_COUNT] = {
    "root", "input", "const", "attr", "inst_attr", "type_attr", "inst_dict", "dict_item", "list_item", "tuple_item", "cell", "type", "call",
};
const char *const dd_leaf_names[LEAF_COUNT] = {
    "type", "is", "is_not", "weak_is", "eq", "len", "dict_keys", "has_key", "no_key", "no_inst_attr", "tensor", "pred", "distinct", "state",
    "code", "same", "defined",
};

static int find(PyObject *name, const char *const *names, int count, const char *what)
{
    if (PyUnicode_Check(name))
        for (int i = 0; i < count; i++)
            if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
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

static int build_leaf(PyObject *spec, Leaf *leaf, bool *user)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 3 || !PyLong_Check(PyTuple_GET_ITEM(spec, 0))) {
        PyErr_Format(PyExc_TypeError, "guard tree: a leaf is (guard_id, kind, arg), got %R", spec);
        return -1;
    }
    PyObject *arg = PyTuple_GET_ITEM(spec, 2);
    const char *want = NULL;
    int kind = find(PyTuple_GET_ITEM(spec, 1), dd_leaf_names, LEAF_COUNT, "leaf");
    if (kind < 0)
        return -1;
    leaf->id = PyLong_AsLongLong(PyTuple_GET_ITEM(spec, 0));
    if (leaf->id == -1 && PyErr_Occurred())
        return -1;
    leaf->kind = (LeafKind)kind;
    leaf->want = dd_referent(arg);
    switch (leaf->kind) {
    case LEAF_TYPE:
        if (leaf->want && !PyType_Check(leaf->want))
            want = "a class";
        break;
    case LEAF_IS: case LEAF_IS_NOT:
        break;
    case LEAF_CODE:
        if (leaf->want && !PyCode_Check(leaf->want))
            want = "a code object";
        break;
    case LEAF_WEAK_IS:
        if (!PyWeakref_CheckRef(arg))
            want = "a weakref.ref";
        break;
    case LEAF_EQ:
        leaf->fixed = immutable_constant(arg);
        *user |= eq_runs_user_code(arg);
        break;
    case LEAF_LEN:
        leaf->n = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
        if (leaf->n < 0) {
            PyErr_Clear();
            want = "an int >= 0";
        }
        break;
    case LEAF_DICT_KEYS:
        if (!PyTuple_Check(arg))
            want = "a tuple of keys";
        break;
    case LEAF_HAS_KEY: case LEAF_NO_KEY:
        *user |= key_runs_user_code(arg);
        if (PyObject_Hash(arg) == -1)
            return -1;
        break;
    case LEAF_NO_INST_ATTR:
        if (!PyUnicode_Check(arg))
            want = "an attribute name";
        break;
    case LEAF_TENSOR:
        if (!Py_IS_TYPE(arg, &dd_TensorFacts_Type))
            want = "TensorFacts";
        else
            *user |= !dd_facts_raw(arg);
        break;
    case LEAF_PRED:
        *user = true;
        if (!PyCallable_Check(arg))
            want = "a callable";
        break;
    case LEAF_DISTINCT:
        break;
    case LEAF_SAME:
        leaf->n = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
        if (leaf->n < 0 || leaf->n >= MOST_GROUPS) {
            PyErr_Clear();
            want = "the number of a group";
        }
        break;
    case LEAF_STATE:
        if (!Py_IS_TYPE(arg, &dd_GlobalState_Type))
            want = "a GlobalState";
        break;
    case LEAF_DEFINED:
        if (!Py_IS_TYPE(arg, &dd_Definitions_Type))
            want = "Definitions";
        break;
    case LEAF_COUNT:
        break;
    }
    if (want) {
        PyErr_Format(PyExc_TypeError, "guard tree: leaf \"%s\" takes %s, not %R", dd_leaf_names[kind], want, arg);
        return -1;
    }
    leaf->arg = Py_NewRef(arg);
    return 0;
}

static int build_accessor(GuardNode *node, PyObject *arg)
{
    const char *want = NULL;
    switch (node->accessor) {
    case ACC_INPUT: case ACC_LIST_ITEM: case ACC_TUPLE_ITEM:
        node->index = PyLong_Check(arg) ? PyLong_AsSsize_t(arg) : -1;
        if (node->index < 0) {
            PyErr_Clear();
            want = "an index >= 0";
        }
        break;
    case ACC_ATTR: case ACC_INST_ATTR: case ACC_TYPE_ATTR:
        if (!PyUnicode_Check(arg))
            want = "an attribute name";
        break;
    case ACC_DICT_ITEM:
        node->user |= key_runs_user_code(arg);
        if (PyObject_Hash(arg) == -1)
            return -1;
        break;
    case ACC_CALL:
        if (!PyCallable_Check(arg))
            want = "a callable";
        break;
    default:
        break;
    }
    if (want) {
        PyErr_Format(PyExc_TypeError, "guard tree: accessor \"%s\" takes %s, not %R", dd_accessor_names[node->accessor], want, arg);
        return -1;
    }
    node->user |= node->accessor == ACC_ATTR || node->accessor == ACC_CALL;
    node->arg = Py_NewRef(arg);
    node->obj = dd_referent(arg);
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

/* Instance attributes are read through one INST_DICT node per object. */
static int merge_instance_reads(GuardNode *node)
{
    Py_ssize_t attrs = 0, absent = 0, to = 0;
    for (Py_ssize_t i = 0; i < node->nkids; i++)
        attrs += node->kids[i].accessor == ACC_INST_ATTR;
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        absent += node->leaves[i].kind == LEAF_NO_INST_ATTR;
    if (!attrs && !absent)
        return 0;
    GuardNode view = {.accessor = ACC_INST_DICT, .absent_ok = !attrs, .worth = true};
    view.leaves = PyMem_Calloc((size_t)absent + 1, sizeof(Leaf));
    view.kids = PyMem_Calloc((size_t)attrs + 1, sizeof(GuardNode));
    GuardNode *kids = PyMem_Calloc((size_t)node->nkids + 2, sizeof(GuardNode));
    if (!view.leaves || !view.kids || !kids) {
        PyMem_Free(view.leaves);
        PyMem_Free(view.kids);
        PyMem_Free(kids);
        PyErr_NoMemory();
        return -1;
    }
    view.arg = Py_NewRef(Py_None);
    for (Py_ssize_t i = 0; i < node->nleaves; i++) {
        if (node->leaves[i].kind != LEAF_NO_INST_ATTR) {
            node->leaves[to++] = node->leaves[i];
            continue;
        }
        Leaf *leaf = &view.leaves[view.nleaves++];
        *leaf = node->leaves[i];
        leaf->kind = LEAF_NO_KEY;
    }
    node->nleaves = to;
    to = 1; /* the view comes first */
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        if (node->kids[i].accessor != ACC_INST_ATTR) {
            kids[to++] = node->kids[i];
            continue;
        }
        GuardNode *kid = &view.kids[view.nkids++];
        *kid = node->kids[i];
        kid->accessor = ACC_DICT_ITEM;
        view.user |= kid->user;
    }
    kids[0] = view;
    PyMem_Free(node->kids);
    node->kids = kids;
    node->nkids = to;
    return 0;
}

static bool reads_dicts(const GuardNode *node)
{
    for (Py_ssize_t i = 0; i < node->nleaves; i++)
        if (node->leaves[i].kind == LEAF_DICT_KEYS || node->leaves[i].kind == LEAF_HAS_KEY || node->leaves[i].kind == LEAF_NO_KEY)
            return true;
    for (Py_ssize_t i = 0; i < node->nkids; i++)
        if (node->kids[i].worth || node->kids[i].accessor == ACC_DICT_ITEM || node->kids[i].accessor == ACC_INST_DICT)
            return true;
    return false;
}

static int build(GuardNode *node, PyObject *spec, bool optimise, bool is_root, GuardCounts *counts)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 4 || !PyTuple_Check(PyTuple_GET_ITEM(spec, 2)) || !PyTuple_Check(PyTuple_GET_ITEM(spec, 3))) {
        PyErr_Format(PyExc_TypeError, "guard tree: a node is (accessor, arg, leaves, children), got %R", spec);
        return -1;
    }
    PyObject *leaves = PyTuple_GET_ITEM(spec, 2), *kids = PyTuple_GET_ITEM(spec, 3);
    int accessor = find(PyTuple_GET_ITEM(spec, 0), dd_accessor_names, ACC_COUNT, "accessor");
    if (accessor < 0)
        return -1;
    if (is_root != (accessor == ACC_ROOT)) {
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
        counts->distinct += leaf->kind == LEAF_DISTINCT;
        node->noted |= leaf->kind == LEAF_DISTINCT || leaf->kind == LEAF_SAME;
        if (leaf->kind == LEAF_SAME && leaf->n >= counts->groups)
            counts->groups = leaf->n + 1;
        if ((leaf->kind == LEAF_STATE || leaf->kind == LEAF_DEFINED) && !is_root) {
            node->nleaves++;
            PyErr_Format(PyExc_ValueError, "guard tree: leaf \"%s\" belongs to the root", dd_leaf_names[leaf->kind]);
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kids); i++) {
        GuardNode *kid = &node->kids[node->nkids++];
        if (Py_EnterRecursiveCall(" while building a guard tree"))
            return -1;
        int bad = build(kid, PyTuple_GET_ITEM(kids, i), optimise, false, counts);
        Py_LeaveRecursiveCall();
        if (bad < 0)
            return -1;
        if (kid->accessor == ACC_INPUT && !is_root) {
            PyErr_SetString(PyExc_ValueError, "guard tree: accessor \"input\" belongs directly under the root");
            return -1;
        }
        node->user |= kid->user;
        node->noted |= kid->noted;
    }
    if (!optimise || node->user) /* around user code everything keeps its place: a predicate may rely on the checks before it */
        return 0;
    if (merge_instance_reads(node) < 0)
        return -1;
    node->worth = !is_root && reads_dicts(node);
    return 0;
}

GuardNode *dd_build(PyObject *spec, bool optimise, GuardCounts *counts)
{
    GuardNode *root = PyMem_Calloc(1, sizeof(GuardNode));
    *counts = (GuardCounts){0, 0};
    if (!root)
        return (GuardNode *)PyErr_NoMemory();
    if (build(root, spec, optimise, true, counts) < 0) {
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
