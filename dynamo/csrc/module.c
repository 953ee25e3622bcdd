/* The module dynamo._C: types and functions under their public names. */
#include "guards.h"

#include <errno.h>
#include <unistd.h>

static PyObject *inst_dict(PyObject *Py_UNUSED(mod), PyObject *obj)
{
    PyObject *dict = dd_inst_dict(obj);
    if (!dict) /* it may not have been made yet, or be kept elsewhere */
        return PyObject_GenericGetDict(obj, NULL);
    return Py_NewRef(dict);
}

static PyObject *free_variable(PyObject *Py_UNUSED(mod), PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyCell_Check(args[0]) || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "free_variable() takes a cell and a name");
        return NULL;
    }
    PyObject *value = PyCell_Get(args[0]);
    if (value)
        return value;
    PyObject *text =
        PyUnicode_FromFormat("cannot access free variable '%U' where it is not associated with a value in enclosing scope", args[1]);
    PyObject *error = text ? PyObject_CallOneArg(PyExc_NameError, text) : NULL;
    if (error && PyObject_SetAttrString(error, "name", args[1]) == 0)
        PyErr_SetObject(PyExc_NameError, error);
    Py_XDECREF(text);
    Py_XDECREF(error);
    return NULL;
}

/* As the interpreter runs __main__: a frame takes the one that runs as the one behind it, so there is none meanwhile, nor calls that
 * count against the limit of recursion. */
static PyObject *run_outermost(PyObject *Py_UNUSED(mod), PyObject *args)
{
    PyObject *code, *globals;
    if (!PyArg_ParseTuple(args, "O!O!:run_outermost", &PyCode_Type, &code, &PyDict_Type, &globals))
        return NULL;
    PyThreadState *tstate = PyThreadState_Get();
    int *remaining = dd_calls_left(tstate);
#if DD_FRAME_IS_IN_CFRAME
    struct _PyInterpreterFrame **current = &tstate->cframe->current_frame;
#else
    struct _PyInterpreterFrame **current = &tstate->current_frame;
#endif
#if DD_C_CALLS_COUNT_APART
    int used = tstate->py_recursion_limit - *remaining;
#else
    int used = tstate->recursion_limit - *remaining;
#endif
    struct _PyInterpreterFrame *ours = *current;
    *current = NULL;
    *remaining += used;
    PyObject *result = PyEval_EvalCode(code, globals, globals);
    *remaining -= used;
    *current = ours;
    return result;
}

/* Without a bytecode between the parts of a line: a signal handler of the program that raises would leave it cut off, and one that compiles
 * would put a line of its own into it. */
static PyObject *write_whole(PyObject *Py_UNUSED(mod), PyObject *args)
{
    int fd, failed = 0;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "iy*:write_whole", &fd, &data))
        return NULL;
    const char *rest = data.buf;
    Py_ssize_t left = data.len;
    Py_BEGIN_ALLOW_THREADS
    while (left > 0 && !failed) {
        ssize_t n = write(fd, rest, (size_t)left);
        if (n >= 0)
            rest += n, left -= n;
        else if (errno != EINTR)
            failed = errno;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (failed) {
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"layout_report", dd_layout_report, METH_NOARGS,
     "layout_report()\n--\n\nHow tensors are read: 'raw' with the calibrated offsets, or 'api' with the reason; and how global modes are."},
    {"sharing", dd_sharing, METH_O,
     "sharing(args, /)\n--\n\nPer tensor of a tuple two int32: the first position with its memory, and the first with itself. Raises what a tensor without storage raises."},
    {"inst_dict", inst_dict, METH_O, "inst_dict(obj, /)\n--\n\nobj.__dict__, read without any code of its class; AttributeError if it has none."},
    {"free_variable", (PyCFunction)(void (*)(void))free_variable, METH_FASTCALL,
     "free_variable(cell, name, /)\n--\n\nWhat the cell of a free variable holds, or the NameError that CPython raises for it."},
    {"run_outermost", run_outermost, METH_VARARGS,
     "run_outermost(code, globals, /)\n--\n\nRun the code of a module as Python runs that of `__main__`: no frame is behind its own."},
    {"write_whole", write_whole, METH_VARARGS,
     "write_whole(fd, data, /)\n--\n\nWrite all of the bytes; no signal handler runs in between. OSError where the descriptor can't be written."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynamo._C",
    .m_doc = "The callable in front of compiled functions, guard programs and the frame hook.",
    .m_size = -1,
    .m_methods = functions,
};

/* {name: (argument, meaning)} of a vocabulary. */
static int add_rows(PyObject *module, const char *name, const KindRow *rows, int count)
{
    PyObject *table = PyDict_New();
    int bad = table ? 0 : -1;
    for (int i = 0; !bad && i < count; i++) {
        PyObject *row = Py_BuildValue("(ss)", dd_argument_words[rows[i].argument], rows[i].words);
        bad = row ? PyDict_SetItemString(table, rows[i].name, row) : -1;
        Py_XDECREF(row);
    }
    bad = bad ? bad : PyModule_AddObjectRef(module, name, table);
    Py_XDECREF(table);
    return bad;
}

PyMODINIT_FUNC PyInit__C(void)
{
    static const struct {
        const char *name;
        PyTypeObject *type;
    } types[] = {
        {"TensorFacts", &dd_TensorFacts_Type}, {"GlobalState", &dd_GlobalState_Type}, {"GuardTree", &dd_GuardTree_Type}, {"Entry", &dd_Entry_Type},
        {"Definitions", &dd_Definitions_Type}, {"Cache", &dd_Cache_Type}, {"Compiled", &dd_Compiled_Type}, {"Direct", &dd_Direct_Type}, {"Tail", &dd_Tail_Type},
    };
    static const struct {
        const char *name;
        long value;
    } modes[] = {{"ACTIVE", DD_ACTIVE}, {"RUN_ONLY", DD_RUN_ONLY}, {"SKIP", DD_SKIP}};

    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddFunctions(module, dd_hook_methods) < 0)
        goto fail;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i].type) < 0 || PyModule_AddObjectRef(module, types[i].name, (PyObject *)types[i].type) < 0)
            goto fail;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        PyObject *value = PyLong_FromLong(modes[i].value);
        int bad = value ? PyDict_SetItemString(dd_Cache_Type.tp_dict, modes[i].name, value) : -1;
        Py_XDECREF(value);
        if (bad)
            goto fail;
    }
    PyType_Modified(&dd_Cache_Type);
    if (add_rows(module, "guard_accessors", dd_accessors, ACCESSORS) < 0 || add_rows(module, "guard_kinds", dd_leaves, LEAVES) < 0)
        goto fail;
    return module;
fail:
    Py_XDECREF(module);
    return NULL;
}
