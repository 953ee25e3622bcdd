/* Host programs from the tuples that host.py writes, and their Python type. */
#include "program.h"
#include <structmember.h>

static int *ints_of(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    int *out = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof(int));
    for (Py_ssize_t i = 0; out && i < n; i++)
        out[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
    return out;
}

int64_t *program_longs(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    int64_t *out = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof(int64_t));
    for (Py_ssize_t i = 0; out && i < n; i++)
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    return out;
}

/* (LAUNCH, name, function, shared, grid, threads, slots of the buffers, numbers, maker of other forms) */
static int read_launch(Step *s, PyObject *spec)
{
    PyObject *slots, *numbers;
    unsigned long long function;
    Launch *l = s->launch = PyMem_Calloc(1, sizeof(Launch));
    if (!l)
        return PyErr_NoMemory(), -1;
    if (!PyArg_ParseTuple(spec, "iUKI(III)IO!O!O", &s->kind, &l->name, &function, &l->aligned.shared, &l->grid[0], &l->grid[1], &l->grid[2],
                          &l->threads, &PyTuple_Type, &slots, &PyTuple_Type, &numbers, &s->callable)) {
        l->name = s->callable = NULL; /* borrowed */
        return -1;
    }
    Py_INCREF(l->name);
    Py_INCREF(s->callable);
    l->aligned.function = (void *)(uintptr_t)function;
    l->slots = ints_of(slots);
    l->numbers = program_longs(numbers);
    l->n_buffers = (int)PyTuple_GET_SIZE(slots);
    l->n_numbers = (int)PyTuple_GET_SIZE(numbers);
    if (l->n_buffers > MAX_BUFFERS || l->n_numbers > MAX_NUMBERS)
        return PyErr_SetString(PyExc_ValueError, "a kernel has too many parameters"), -1;
    return l->slots && l->numbers ? 0 : -1;
}

static int read_step(Step *s, PyObject *spec)
{
    PyObject *a = NULL, *b = NULL;
    unsigned long long address = 0;
    s->kind = (int)PyLong_AsLong(PyTuple_GetItem(spec, 0));
    switch (s->kind) {
    case KERNEL:
        if (!PyArg_ParseTuple(spec, "iKi|L", &s->kind, &address, &s->release, (long long *)&s->work))
            return -1;
        s->kernel = (Kernel)(uintptr_t)address;
        return 0;
    case CALL:
        if (!PyArg_ParseTuple(spec, "iOO!O!i", &s->kind, &s->callable, &PyTuple_Type, &s->args, &PyTuple_Type, &a, &s->single))
            return -1;
        Py_INCREF(s->callable);
        Py_INCREF(s->args);
        s->n_out = (int)PyTuple_GET_SIZE(a);
        s->outs = ints_of(a);
        return 0;
    case EMPTY:
        if (!PyArg_ParseTuple(spec, "iiO!O!i|L", &s->kind, &s->slot, &PyTuple_Type, &a, &PyTuple_Type, &b, &s->dtype, (long long *)&s->huge))
            return -1;
        break;
    case VIEW:
        if (!PyArg_ParseTuple(spec, "iiiO!O!L", &s->kind, &s->slot, &s->from, &PyTuple_Type, &a, &PyTuple_Type, &b, (long long *)&s->offset))
            return -1;
        break;
    case CHECK:
        return 0;
    case LAUNCH:
        return read_launch(s, spec);
    case DROP:
        return PyArg_ParseTuple(spec, "ii", &s->kind, &s->slot) ? 0 : -1;
    default:
        PyErr_SetString(PyExc_ValueError, "unknown kind of step");
        return -1;
    }
    s->ndim = (int)PyTuple_GET_SIZE(a);
    s->sizes = program_longs(a);
    s->strides = program_longs(b);
    return s->sizes && s->strides ? 0 : -1;
}

static int read_layout(Layout *layout, PyObject *spec)
{
    PyObject *sizes, *strides;
    layout->ndim = -1;
    if (spec == Py_None)
        return 0;
    if (!PyArg_ParseTuple(spec, "O!O!iiL", &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &layout->dtype, &layout->itemsize, (long long *)&layout->numel))
        return -1;
    layout->ndim = (int)PyTuple_GET_SIZE(sizes);
    layout->sizes = program_longs(sizes);
    layout->strides = program_longs(strides);
    return layout->sizes && layout->strides ? 0 : -1;
}

/* (type, index), and on a GPU the driver's context, the address of the flag or 0, and torch's function from an index to a stream */
static int read_device(Program *p, PyObject *spec)
{
    unsigned long long context = 0, flag = 0;
    if (!PyArg_ParseTuple(spec, "ii|KKO", &p->device_type, &p->device_index, &context, &flag, &p->stream_of))
        return -1;
    Py_XINCREF(p->stream_of);
    p->context = (void *)(uintptr_t)context;
    p->flag = (int32_t *)(uintptr_t)flag;
    p->device_number = PyLong_FromLong(p->device_index);
    return p->device_number ? 0 : -1;
}

static PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static long long tokens;
    PyObject *inputs, *steps, *outputs, *values, *constants, *constant_slots, *temps, *offsets, *arena_slots, *expected;
    PyObject *base, *views, *restride, *keep, *device;
    long long arena_bytes;
    int n_slots, owns_inputs;
    if (!PyArg_ParseTuple(args, "iO!O!O!O!O!O!O!O!O!O!LOOOpO!O", &n_slots, &PyTuple_Type, &inputs, &PyTuple_Type, &steps, &PyTuple_Type, &outputs,
                          &PyTuple_Type, &values, &PyTuple_Type, &constants, &PyTuple_Type, &constant_slots, &PyTuple_Type, &temps,
                          &PyTuple_Type, &offsets, &PyTuple_Type, &arena_slots, &PyTuple_Type, &expected, &arena_bytes,
                          &base, &views, &restride, &owns_inputs, &PyTuple_Type, &device, &keep))
        return NULL;
    Program *p = (Program *)type->tp_alloc(type, 0);
    if (!p)
        return NULL;
    p->vectorcall = host_run_program;
    p->n_slots = n_slots;
    p->n_inputs = (int)PyTuple_GET_SIZE(inputs);
    p->inputs = ints_of(inputs);
    p->n_outputs = (int)PyTuple_GET_SIZE(outputs);
    p->outputs = ints_of(outputs);
    p->output_values = Py_NewRef(values);
    p->constants = Py_NewRef(constants);
    p->n_constants = (int)PyTuple_GET_SIZE(constants);
    p->constant_slots = ints_of(constant_slots);
    p->n_temps = (int)PyTuple_GET_SIZE(temps);
    p->temp_slots = ints_of(temps);
    p->temp_offsets = program_longs(offsets);
    p->n_arena_objects = (int)PyTuple_GET_SIZE(arena_slots);
    p->arena_object_slots = ints_of(arena_slots);
    p->arena_bytes = arena_bytes;
    p->owns_inputs = owns_inputs;
    p->make_base = Py_NewRef(base);
    p->make_views = Py_NewRef(views);
    p->restride = Py_NewRef(restride);
    p->keep = Py_NewRef(keep);
    if (read_device(p, device))
        goto fail;
    p->token = PyLong_FromLongLong(tokens++);
    p->layouts = PyMem_Calloc((size_t)n_slots + 1, sizeof(Layout));
    p->steps = PyMem_Calloc((size_t)PyTuple_GET_SIZE(steps) + 1, sizeof(Step));
    if (!p->inputs || !p->outputs || !p->token || !p->layouts || !p->steps) {
        PyErr_NoMemory();
        goto fail;
    }
    for (int i = 0; i < n_slots; i++)
        if (read_layout(&p->layouts[i], PyTuple_GET_ITEM(expected, i)))
            goto fail;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        p->n_steps++;
        if (read_step(&p->steps[i], PyTuple_GET_ITEM(steps, i)))
            goto fail;
        p->n_launches += p->steps[i].kind == LAUNCH;
        p->has_torch_steps |= p->steps[i].kind == CALL || p->steps[i].kind == VIEW;
    }
    (void)kwargs;
    if (!PyErr_Occurred())
        return (PyObject *)p;
fail:
    Py_DECREF(p);
    return NULL;
}

static int Program_traverse(Program *p, visitproc visit, void *arg)
{
    for (int i = 0; i < p->n_steps; i++) {
        Py_VISIT(p->steps[i].callable);
        Py_VISIT(p->steps[i].args);
    }
    Py_VISIT(p->output_values);
    Py_VISIT(p->constants);
    Py_VISIT(p->make_base);
    Py_VISIT(p->make_views);
    Py_VISIT(p->restride);
    Py_VISIT(p->stream_of);
    Py_VISIT(p->keep);
    return 0;
}

static int Program_clear(Program *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        Py_CLEAR(p->steps[i].callable);
        Py_CLEAR(p->steps[i].args);
    }
    Py_CLEAR(p->output_values);
    Py_CLEAR(p->constants);
    Py_CLEAR(p->make_base);
    Py_CLEAR(p->make_views);
    Py_CLEAR(p->restride);
    Py_CLEAR(p->stream_of);
    Py_CLEAR(p->keep);
    return 0;
}

static void Program_dealloc(Program *p)
{
    PyObject_GC_UnTrack(p);
    host_forget_views(p);
    Program_clear(p);
    Py_CLEAR(p->token);
    Py_CLEAR(p->device_number);
    for (int i = 0; i < p->n_steps; i++) {
        PyMem_Free(p->steps[i].outs);
        PyMem_Free(p->steps[i].sizes);
        PyMem_Free(p->steps[i].strides);
        if (p->steps[i].launch) {
            Py_XDECREF(p->steps[i].launch->name);
            PyMem_Free(p->steps[i].launch->slots);
            PyMem_Free(p->steps[i].launch->numbers);
            PyMem_Free(p->steps[i].launch);
        }
    }
    for (int i = 0; p->layouts && i < p->n_slots; i++) {
        PyMem_Free(p->layouts[i].sizes);
        PyMem_Free(p->layouts[i].strides);
    }
    PyMem_Free(p->layouts);
    PyMem_Free(p->steps);
    PyMem_Free(p->inputs);
    PyMem_Free(p->outputs);
    PyMem_Free(p->constant_slots);
    PyMem_Free(p->temp_slots);
    PyMem_Free(p->temp_offsets);
    PyMem_Free(p->arena_object_slots);
    Py_TYPE(p)->tp_free((PyObject *)p);
}

static PyObject *Program_is_below_autograd(PyObject *self, void *closure)
{
    (void)self, (void)closure;
    Py_RETURN_TRUE;
}

static PyObject *Program_lays_out_inputs(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((Program *)self)->owns_inputs);
}

static PyGetSetDef Program_getset[] = {
    {"lays_out_inputs", Program_lays_out_inputs, NULL, "Inputs may come in any strides.", NULL},
    {"is_below_autograd", Program_is_below_autograd, NULL, "Calls need no guard against autograd around them.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject host_ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Program",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Program(n_slots, inputs, steps, outputs, output_values, constants, constant_slots, temp_slots, temp_offsets, arena_slots,\n"
              "        expected, arena_bytes, make_base, make_views, restride, owns_inputs, device, keep, /)\n--\n\n"
              "A host program; call it with the list of inputs.",
    .tp_new = Program_new,
    .tp_dealloc = (destructor)Program_dealloc,
    .tp_traverse = (traverseproc)Program_traverse,
    .tp_clear = (inquiry)Program_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Program, vectorcall),
    .tp_getset = Program_getset,
};
