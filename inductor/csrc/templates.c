/* What stands in the arguments of a call for tensors that are there when it runs. */
#include "templates.h"

static PyObject *Ref_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int slot;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "i", &slot))
        return NULL;
    Ref *ref = (Ref *)type->tp_alloc(type, 0);
    if (ref)
        ref->slot = slot;
    return (PyObject *)ref;
}

PyTypeObject host_RefType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Ref",
    .tp_basicsize = sizeof(Ref),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Ref(slot, /)\n--\n\nStands for the tensor of a slot in the arguments of a call.",
    .tp_new = Ref_new,
};

static PyObject *Build_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *items;
    int is_list;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!p", &PyTuple_Type, &items, &is_list))
        return NULL;
    Build *build = (Build *)type->tp_alloc(type, 0);
    if (build) {
        build->items = Py_NewRef(items);
        build->is_list = is_list;
    }
    return (PyObject *)build;
}

static void Build_dealloc(Build *build)
{
    Py_XDECREF(build->items);
    Py_TYPE(build)->tp_free((PyObject *)build);
}

PyTypeObject host_BuildType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Build",
    .tp_basicsize = sizeof(Build),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Build(items, is_list, /)\n--\n\nStands for a list or tuple that has Refs inside.",
    .tp_new = Build_new,
    .tp_dealloc = (destructor)Build_dealloc,
};

PyObject *host_materialise(PyObject *item, PyObject **objects)
{
    if (Py_TYPE(item) == &host_RefType)
        return Py_NewRef(objects[((Ref *)item)->slot]);
    if (Py_TYPE(item) != &host_BuildType)
        return Py_NewRef(item);
    Build *build = (Build *)item;
    Py_ssize_t n = PyTuple_GET_SIZE(build->items);
    PyObject *out = build->is_list ? PyList_New(n) : PyTuple_New(n);
    for (Py_ssize_t i = 0; out && i < n; i++) {
        PyObject *value = host_materialise(PyTuple_GET_ITEM(build->items, i), objects);
        if (!value) {
            Py_CLEAR(out);
        } else if (build->is_list) {
            PyList_SET_ITEM(out, i, value);
        } else {
            PyTuple_SET_ITEM(out, i, value);
        }
    }
    return out;
}
