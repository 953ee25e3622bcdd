/* Binding of call arguments into the flat inputs array, as CPython binds them into a frame's first slots. */
#include "core.h"

/* Reads once what the code object says about parameters. */
int dd_bind_shape(Compiled *c)
{
    PyCodeObject *code = (PyCodeObject *)c->code;
    c->posonly = code->co_posonlyargcount;
    c->argcount = code->co_argcount;
    c->kwonly = code->co_kwonlyargcount;
    c->flags = code->co_flags;
    c->slots = c->argcount + c->kwonly + !!(c->flags & CO_VARARGS) + !!(c->flags & CO_VARKEYWORDS);
    c->cells = code->co_nfreevars;
    c->simple = c->slots == c->argcount;
    c->names = Py_NewRef(code->co_localsplusnames);
    return 0;
}

void dd_copy_cells(Compiled *c, PyObject *fn, PyObject **out)
{
    PyObject *closure = PyFunction_GET_CLOSURE(fn);
    for (Py_ssize_t i = 0; i < c->cells; i++)
        out[i] = PyTuple_GET_ITEM(closure, i);
}

/* Index of the parameter that takes keyword `key`, -1 if none, -2 on error. Identity first: names are interned almost always. */
static Py_ssize_t find_name(Compiled *c, PyObject *key)
{
    Py_ssize_t n = c->argcount + c->kwonly;
    for (Py_ssize_t i = c->posonly; i < n; i++)
        if (PyTuple_GET_ITEM(c->names, i) == key)
            return i;
    for (Py_ssize_t i = c->posonly; i < n; i++) {
        int same = PyObject_RichCompareBool(key, PyTuple_GET_ITEM(c->names, i), Py_EQ);
        if (same)
            return same < 0 ? -2 : i;
    }
    return -1;
}

/* Fills out[0 .. slots) with new references. 1: bound; 0: CPython would refuse this call (nothing held); -1: error. */
int dd_bind(Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames, PyObject **out)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    Py_ssize_t named = c->argcount + c->kwonly, at = named;
    PyObject *kwargs = NULL, *kwdefaults;
    int status = -1;

    memset(out, 0, (size_t)c->slots * sizeof(PyObject *));
    if (nargs > c->argcount && !(c->flags & CO_VARARGS))
        return 0;
    Py_ssize_t direct = nargs < c->argcount ? nargs : c->argcount;
    for (Py_ssize_t i = 0; i < direct; i++)
        out[i] = Py_NewRef(args[i]);
    if (c->flags & CO_VARARGS) {
        out[at] = dd_tuple_of(args + direct, nargs - direct);
        if (!out[at++])
            goto fail;
    }
    if (c->flags & CO_VARKEYWORDS) {
        kwargs = out[at] = PyDict_New();
        if (!kwargs)
            goto fail;
    }
    for (Py_ssize_t k = 0; k < nkw; k++) {
        PyObject *key = PyTuple_GET_ITEM(kwnames, k), *value = args[nargs + k];
        if (!PyUnicode_Check(key)) {
            status = 0;
            goto fail;
        }
        Py_ssize_t i = find_name(c, key);
        if (i == -2)
            goto fail;
        if (i < 0 && kwargs) {
            if (PyDict_SetItem(kwargs, key, value) < 0)
                goto fail;
        }
        else if (i < 0 || out[i]) {
            status = 0;
            goto fail;
        }
        else
            out[i] = Py_NewRef(value);
    }
    PyObject *defaults = ((PyFunctionObject *)c->fn)->func_defaults;
    Py_ssize_t first = c->argcount - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
    for (Py_ssize_t i = direct; i < c->argcount; i++) {
        if (out[i])
            continue;
        if (i < first) {
            status = 0;
            goto fail;
        }
        out[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
    }
    kwdefaults = ((PyFunctionObject *)c->fn)->func_kwdefaults;
    for (Py_ssize_t i = c->argcount; i < named; i++) {
        if (out[i])
            continue;
        PyObject *value = kwdefaults ? PyDict_GetItemWithError(kwdefaults, PyTuple_GET_ITEM(c->names, i)) : NULL;
        if (!value) {
            status = PyErr_Occurred() ? -1 : 0;
            goto fail;
        }
        out[i] = Py_NewRef(value);
    }
    return 1;
fail:
    for (Py_ssize_t i = 0; i < c->slots; i++)
        Py_CLEAR(out[i]);
    return status;
}
