/* Runs host programs: what happens between the inputs of a compiled graph and its outputs, as data run by one C loop.
 *
 * A program is a list of steps over numbered slots. A slot holds a tensor object, a data pointer, or both. Steps allocate
 * outputs, call kernels, call ATen operators, make views and drop tensors that are no longer needed. Temporaries that only
 * kernels touch live in an arena that is kept between calls; concurrent calls each take their own. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"
#include "program.h"
#include "templates.h"
#include "tensors.h"

/* Memory for temporaries, shared by all programs: the forward and backward of a step, or the graphs of a broken function, never
 * need it at the same time. An arena is (base tensor, its bytes, {token of a program: its tensors over the base}). */
static PyObject *free_arenas;

static int set_object(PyObject **objects, char **pointers, int slot, PyObject *tensor /* stolen */)
{
    void *data = NULL;
    Py_XSETREF(objects[slot], tensor);
    if (tensor == Py_None) { /* an undefined tensor: some operators leave a result out */
        pointers[slot] = NULL;
        return 0;
    }
    if (host_data_ptr(tensor, &data))
        return -1;
    pointers[slot] = data;
    return 0;
}

/* A dense tensor with one value everywhere: what the gradient of `sum` becomes, without an operator call. New reference. */
static PyObject *filled(const Layout *layout, const char *value)
{
    void *data = NULL;
    PyObject *tensor = host_empty(layout->ndim, layout->sizes, layout->strides, layout->dtype, 0, 0);
    if (!tensor || host_data_ptr(tensor, &data)) {
        Py_XDECREF(tensor);
        return NULL;
    }
    size_t size = (size_t)layout->itemsize, total = (size_t)layout->numel * size;
    memcpy(data, value, size);
    for (size_t done = size; done < total; done *= 2)
        memcpy((char *)data + done, data, done < total - done ? done : total - done);
    return tensor;
}

/* Strides of dims with one element are never used. */
static int has_strides(const Layout *layout, const int64_t *strides)
{
    for (int i = 0; i < layout->ndim; i++)
        if (strides[i] != layout->strides[i] && layout->sizes[i] != 1)
            return 0;
    return 1;
}

/* The tensor in the strides that kernels were printed for; takes the reference. */
static PyObject *laid_out(Program *p, int slot, PyObject *value)
{
    const Layout *layout = &p->layouts[slot];
    int64_t *strides = NULL;
    void *data = NULL;
    if (layout->ndim < 0 || value == Py_None)
        return value;
    if (host_strides(value, &strides)) {
        Py_DECREF(value);
        return NULL;
    }
    if (has_strides(layout, strides))
        return value;
    int is_one_value = layout->numel > 1 && !p->device_type;
    for (int i = 0; i < layout->ndim; i++)
        is_one_value &= strides[i] == 0 || layout->sizes[i] == 1;
    PyObject *fixed = NULL;
    if (!is_one_value)
        fixed = PyObject_CallFunction(p->restride, "iO", slot, value);
    else if (!host_data_ptr(value, &data))
        fixed = filled(layout, data);
    Py_DECREF(value);
    return fixed;
}

static int keep_result(Program *p, PyObject **objects, char **pointers, int slot, PyObject *value)
{
    value = laid_out(p, slot, Py_NewRef(value));
    return value ? set_object(objects, pointers, slot, value) : -1;
}

static int run_call(Program *p, Step *s, PyObject **objects, char **pointers)
{
    Py_ssize_t n = PyTuple_GET_SIZE(s->args);
    PyObject **stack = PyMem_Malloc(sizeof(PyObject *) * (size_t)(n + 1)), *result = NULL;
    Py_ssize_t filled = 0;
    int rc = -1;
    if (!stack)
        return PyErr_NoMemory(), -1;
    for (; filled < n; filled++)
        if (!(stack[filled] = host_materialise(PyTuple_GET_ITEM(s->args, filled), objects)))
            goto done;
    result = PyObject_Vectorcall(s->callable, stack, (size_t)n, NULL);
    if (!result)
        goto done;
    if (s->single) {
        rc = s->outs[0] < 0 ? 0 : keep_result(p, objects, pointers, s->outs[0], result);
        goto done;
    }
    if (!PySequence_Check(result) || PySequence_Size(result) != s->n_out) {
        PyErr_SetString(PyExc_RuntimeError, "an operator returned another number of results than its fake did");
        goto done;
    }
    rc = 0;
    for (int i = 0; i < s->n_out && !rc; i++) {
        if (s->outs[i] < 0)
            continue;
        PyObject *item = PySequence_GetItem(result, i);
        rc = item ? keep_result(p, objects, pointers, s->outs[i], item) : -1;
        Py_XDECREF(item);
    }
done:
    for (Py_ssize_t i = 0; i < filled; i++)
        Py_DECREF(stack[i]);
    PyMem_Free(stack);
    Py_XDECREF(result);
    return rc;
}

/* malloc often maps fresh memory for a large block, and the kernel would fault it in 4 KB at a time: that takes longer than
 * computing what is written there. */
static void ask_for_huge_pages(char *data, int64_t nbytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t from = ((uintptr_t)data + 4095) & ~(uintptr_t)4095, to = ((uintptr_t)data + nbytes) & ~(uintptr_t)4095;
    madvise((void *)from, to - from, MADV_HUGEPAGE); /* a wish: refusing it changes nothing else */
#endif
}

/* Work from which on a kernel is shared among a team of so many threads; larger teams count as the last. */
enum { LARGEST_TEAM = 256 };
static int64_t team_work[LARGEST_TEAM + 1];

/* Another form of a kernel, for buffers of which some do not begin at 16 bytes. Python compiles and keeps them. */
static int take_form(Step *s, uint64_t misaligned)
{
    unsigned long long function;
    PyObject *form = PyObject_CallFunction(s->callable, "K", (unsigned long long)misaligned);
    if (!form)
        return -1;
    int ok = PyArg_ParseTuple(form, "KI", &function, &s->launch->other.shared);
    Py_DECREF(form);
    if (!ok)
        return -1;
    s->launch->other.function = (void *)(uintptr_t)function;
    s->launch->misaligned = misaligned;
    return 0;
}

static int run_launch(Step *s, char **pointers, void *stream)
{
    Launch *l = s->launch;
    void *cells[l->n_buffers + l->n_numbers + 2], *scratch = NULL; /* Triton appends two pointers, of which it uses none here */
    uint64_t misaligned = 0;
    int n = 0;
    for (; n < l->n_buffers; n++) {
        char **cell = &pointers[l->slots[n]];
        cells[n] = cell;
        misaligned |= (uint64_t)(((uintptr_t)*cell & 15) != 0) << (n < 63 ? n : 63);
    }
    for (int k = 0; k < l->n_numbers; k++)
        cells[n++] = &l->numbers[k];
    cells[n] = cells[n + 1] = &scratch;
    if (misaligned && misaligned != l->misaligned && take_form(s, misaligned))
        return -1;
    Form *form = misaligned ? &l->other : &l->aligned;
    return driver_launch(form->function, l->grid, l->threads, form->shared, stream, cells, l->name);
}

static int run_steps(Program *p, PyObject **objects, char **pointers, int threads, void *stream)
{
    int64_t least = team_work[threads < LARGEST_TEAM ? threads : LARGEST_TEAM];
    for (int i = 0; i < p->n_steps; i++) {
        Step *s = &p->steps[i];
        PyObject *tensor;
        switch (s->kind) {
        case KERNEL:
            if (s->release) {
                Py_BEGIN_ALLOW_THREADS
                s->kernel(pointers, s->work < least ? 1 : threads);
                Py_END_ALLOW_THREADS
            } else {
                s->kernel(pointers, s->work < least ? 1 : threads);
            }
            break;
        case LAUNCH:
            if (run_launch(s, pointers, stream))
                return -1;
            break;
        case CALL:
            if (run_call(p, s, objects, pointers))
                return -1;
            break;
        case EMPTY:
            tensor = host_empty(s->ndim, s->sizes, s->strides, s->dtype, p->device_type, p->device_index);
            if (!tensor || set_object(objects, pointers, s->slot, tensor))
                return -1;
            if (s->huge && p->has_run)
                ask_for_huge_pages(pointers[s->slot], s->huge);
            break;
        case VIEW:
            tensor = host_view(objects[s->from], s->ndim, s->sizes, s->strides, s->offset);
            if (!tensor || set_object(objects, pointers, s->slot, tensor))
                return -1;
            break;
        case CHECK: /* what follows is seen by others: it happens only if nothing was refused so far */
            if (*(volatile int *)pointers[0])
                return 0;
            break;
        case DROP:
            Py_CLEAR(objects[s->slot]);
            break;
        }
    }
    return 0;
}

/* The free arena used last among those that are large enough; otherwise a new one, in place of one that is too small. */
static PyObject *take_arena(Program *p)
{
    Py_ssize_t n = PyList_GET_SIZE(free_arenas), i = n - 1;
    while (i >= 0 && PyLong_AsLongLong(PyTuple_GET_ITEM(PyList_GET_ITEM(free_arenas, i), 1)) < p->arena_bytes)
        i--;
    PyObject *arena = i < 0 ? NULL : Py_NewRef(PyList_GET_ITEM(free_arenas, i));
    if (n && PyList_SetSlice(free_arenas, arena ? i : n - 1, arena ? i + 1 : n, NULL)) {
        Py_XDECREF(arena);
        return NULL;
    }
    if (arena)
        return arena;
    PyObject *base = PyObject_CallFunction(p->make_base, "L", (long long)p->arena_bytes);
    return base ? Py_BuildValue("(NLN)", base, (long long)p->arena_bytes, PyDict_New()) : NULL;
}

static int use_arena(Program *p, PyObject *arena, PyObject **objects, char **pointers)
{
    PyObject *base = PyTuple_GET_ITEM(arena, 0), *known = PyTuple_GET_ITEM(arena, 2), *views;
    void *data = NULL;
    if (host_data_ptr(base, &data))
        return -1;
    for (int i = 0; i < p->n_temps; i++)
        pointers[p->temp_slots[i]] = (char *)data + p->temp_offsets[i];
    if (!p->n_arena_objects)
        return 0;
    views = PyDict_GetItemWithError(known, p->token);
    if (!views) {
        if (PyErr_Occurred() || !(views = PyObject_CallOneArg(p->make_views, base)))
            return -1;
        int bad = PyDict_SetItem(known, p->token, views);
        Py_DECREF(views);
        if (bad)
            return -1;
    }
    for (int i = 0; i < p->n_arena_objects; i++)
        objects[p->arena_object_slots[i]] = Py_NewRef(PyTuple_GET_ITEM(views, i));
    return 0;
}

/* A program that goes away takes its tensors out of the arenas. Those in use at this moment keep theirs until they are dropped. */
void host_forget_views(Program *p)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t i = 0; p->token && i < PyList_GET_SIZE(free_arenas); i++) {
        PyObject *known = PyTuple_GET_ITEM(PyList_GET_ITEM(free_arenas, i), 2);
        if (PyDict_Contains(known, p->token) == 1)
            PyDict_DelItem(known, p->token);
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *collect(Program *p, PyObject **objects)
{
    PyObject *out = PyTuple_New(p->n_outputs);
    for (int i = 0; out && i < p->n_outputs; i++) {
        PyObject *value = p->outputs[i] >= 0 ? objects[p->outputs[i]] : PyTuple_GET_ITEM(p->output_values, i);
        PyTuple_SET_ITEM(out, i, Py_NewRef(value));
    }
    return out;
}

/* Kernels of a GPU note an index out of range when they get there: in this call, or in an earlier one. Eager has the device fail then
 * and with it the process; nobody should run the program again to see that. */
int host_refuse_index(Program *p)
{
    PyObject *error = PyObject_CallFunction(PyExc_IndexError, "s", "index out of range in a compiled graph");
    *p->flag = 0;
    if (error && !PyObject_SetAttrString(error, "is_final", Py_True)) /* see dynamo/graph/rescue.py */
        PyErr_SetObject(PyExc_IndexError, error);
    Py_XDECREF(error);
    return -1;
}

/* The stream that torch uses now on the program's device, whose context becomes current. */
static int enter_device(Program *p, void **stream, void **before)
{
    if (p->flag && *p->flag)
        return host_refuse_index(p);
    PyObject *number = PyObject_CallOneArg(p->stream_of, p->device_number);
    if (!number)
        return -1;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : driver_enter(p->context, before);
}

static PyObject *run(Program *p, PyObject **inputs, int take)
{
    enum { SMALL = 128 };
    PyObject *small_objects[SMALL], **objects = small_objects, *arena = NULL, *guard = NULL, *result = NULL;
    char *small_pointers[SMALL], **pointers = small_pointers;
    void *stream = NULL, *context_before = NULL;
    int bad = 0, threads = host_threads();
    if (p->n_slots + 1 > SMALL) {
        objects = PyMem_Malloc(sizeof(PyObject *) * (size_t)(p->n_slots + 1));
        pointers = PyMem_Malloc(sizeof(char *) * (size_t)(p->n_slots + 1));
        if (!objects || !pointers) {
            PyMem_Free(objects);
            PyMem_Free(pointers);
            return PyErr_NoMemory();
        }
    }
    memset(objects, 0, sizeof(PyObject *) * (size_t)(p->n_slots + 1));
    pointers[0] = p->flag ? (char *)p->flag : (char *)&bad; /* kernels set it when they meet an index out of range */
    if (p->n_launches && enter_device(p, &stream, &context_before))
        goto done;
    for (int i = 0; i < p->n_inputs; i++) {
        PyObject *input = Py_NewRef(inputs[i]);
        if (take)
            Py_SETREF(inputs[i], Py_NewRef(Py_None));
        if (p->inputs[i] < 0)
            Py_DECREF(input);
        else if (!(input = laid_out(p, p->inputs[i], input)) || set_object(objects, pointers, p->inputs[i], input))
            goto done;
    }
    for (int i = 0; i < p->n_constants; i++)
        if (set_object(objects, pointers, p->constant_slots[i], Py_NewRef(PyTuple_GET_ITEM(p->constants, i))))
            goto done;
    if (p->n_temps || p->n_arena_objects) {
        arena = take_arena(p);
        if (!arena || use_arena(p, arena, objects, pointers))
            goto done;
    }
    if (p->has_torch_steps && !(guard = host_enter_guard()))
        goto done;
    if (run_steps(p, objects, pointers, threads, stream))
        goto done;
    if (p->flag && *p->flag && host_refuse_index(p))
        goto done;
    if (bad) {
        PyErr_SetString(PyExc_IndexError, "index out of range in a compiled graph");
        goto done;
    }
    result = collect(p, objects);
    p->has_run = 1;
done:
    if (guard)
        host_leave_guard(guard);
    driver_leave(context_before);
    for (int i = 0; i < p->n_slots; i++)
        Py_XDECREF(objects[i]);
    if (arena) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyList_Append(free_arenas, arena);
        PyErr_Restore(type, value, traceback);
        Py_DECREF(arena);
    }
    if (objects != small_objects) {
        PyMem_Free(objects);
        PyMem_Free(pointers);
    }
    return result;
}

PyObject *host_run_program(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Program *p = (Program *)self;
    if (PyVectorcall_NARGS(nargsf) != 1 || (kwnames && PyTuple_GET_SIZE(kwnames))) {
        PyErr_SetString(PyExc_TypeError, "a compiled graph takes one list of inputs");
        return NULL;
    }
    PyObject *inputs = PySequence_Fast(args[0], "a compiled graph takes one list of inputs"), *result = NULL;
    if (!inputs)
        return NULL;
    if (PySequence_Fast_GET_SIZE(inputs) == p->n_inputs)
        result = run(p, PySequence_Fast_ITEMS(inputs), p->owns_inputs && PyList_CheckExact(inputs) && inputs == args[0]);
    else
        PyErr_Format(PyExc_TypeError, "the compiled graph takes %d inputs, got %zd", p->n_inputs, PySequence_Fast_GET_SIZE(inputs));
    Py_DECREF(inputs);
    return result;
}

/* set_team_work(work of teams of 0, 1, 2, ... threads) */
static PyObject *set_team_work(PyObject *module, PyObject *values)
{
    (void)module;
    if (!PyTuple_Check(values) || PyTuple_GET_SIZE(values) != LARGEST_TEAM + 1)
        return PyErr_Format(PyExc_ValueError, "expected a tuple of %d numbers", LARGEST_TEAM + 1), NULL;
    for (int i = 0; i <= LARGEST_TEAM; i++) {
        int64_t work = PyLong_AsLongLong(PyTuple_GET_ITEM(values, i));
        if (work == -1 && PyErr_Occurred())
            return NULL;
        team_work[i] = work;
    }
    Py_RETURN_NONE;
}

PyMethodDef run_methods[] = {
    {"set_team_work", set_team_work, METH_O,
     "set_team_work(work, /)\n--\n\nWork from which on a kernel is shared among a team, by number of threads."},
    {NULL, NULL, 0, NULL},
};

int run_ready(void) { return free_arenas || (free_arenas = PyList_New(0)) ? 0 : -1; }
