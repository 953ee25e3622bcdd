/* The PEP 523 frame hook: user frames reached from natively running code are served from their own caches.
 *
 * It is installed only while some thread is inside a native scope. Frames are never built here: a frame that hits is read
 * (arguments and closure), its entry is called, and the frame is disposed of. */
#define Py_BUILD_CORE 1
#include "core.h"
#include <internal/pycore_frame.h>

static PyObject *frame_handler;

/* ---- decisions, one per (code, context) ---- */

typedef struct {
    PyObject *code, *context; /* strong, so that their addresses can't be reused while they are keys */
    PyObject *compiled;       /* strong; Py_None = leave frames of this code alone */
} Decision;

static Decision *table;
static size_t table_size, table_used;
enum { TABLE_FIRST = 256, TABLE_MOST = 1 << 16 };

static size_t slot_of(const Decision *in, size_t size, PyObject *code, PyObject *context)
{
    size_t i = (((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u ^ ((uintptr_t)context >> 4)) & (size - 1);
    while (in[i].code && (in[i].code != code || in[i].context != context))
        i = (i + 1) & (size - 1);
    return i;
}

static void forget_all(void)
{
    Decision *old = table;
    size_t size = table_size;
    table = NULL; /* dropping references may run code that comes back here */
    table_size = table_used = 0;
    for (size_t i = 0; i < size; i++) {
        Py_XDECREF(old[i].compiled);
        Py_XDECREF(old[i].context);
        Py_XDECREF(old[i].code);
    }
    PyMem_Free(old);
}

static int remember(PyObject *code, PyObject *context, PyObject *compiled)
{
    if (table_used >= TABLE_MOST)
        forget_all(); /* a program that makes code objects without end must not keep them all alive */
    if (table_used * 2 >= table_size) {
        size_t size = table_size ? table_size * 2 : TABLE_FIRST;
        Decision *grown = PyMem_Calloc(size, sizeof(Decision));
        if (!grown) {
            PyErr_NoMemory();
            return -1;
        }
        for (size_t i = 0; i < table_size; i++)
            if (table[i].code)
                grown[slot_of(grown, size, table[i].code, table[i].context)] = table[i];
        PyMem_Free(table);
        table = grown;
        table_size = size;
    }
    Decision *d = &table[slot_of(table, table_size, code, context)];
    if (d->code)
        return 0; /* another thread decided while our handler ran */
    *d = (Decision){Py_NewRef(code), Py_NewRef(context), Py_NewRef(compiled)};
    table_used++;
    return 0;
}

/* New reference to a Compiled or None; NULL with an error if the handler raised. */
static PyObject *decide(Thread *t, PyObject *func, PyObject *code)
{
    if (table_size) {
        Decision *d = &table[slot_of(table, table_size, code, t->context)];
        if (d->code)
            return Py_NewRef(d->compiled);
    }
    if (!frame_handler || t->stance == DD_STANCE_FROZEN)
        return Py_NewRef(Py_None);
    PyObject *handler = Py_NewRef(frame_handler), *context = Py_NewRef(t->context);
    int was_native = t->native;
    t->native = 0;
    PyObject *made = PyObject_CallFunctionObjArgs(handler, func, context, NULL);
    t->native = was_native;
    if (made && made != Py_None && (!Py_IS_TYPE(made, &dd_Compiled_Type) || ((Compiled *)made)->code != code)) {
        PyErr_Format(PyExc_TypeError, "frame handler: expected None or a Compiled of %R, got %R", code, made);
        Py_CLEAR(made);
    }
    if (made && remember(code, context, made) < 0)
        Py_CLEAR(made);
    Py_DECREF(handler);
    Py_DECREF(context);
    return made;
}

/* ---- frames ---- */

#if DD_FRAME_HAS_EXECUTABLE
#define FRAME_CODE(f) ((f)->f_executable)
#else
#define FRAME_CODE(f) ((PyObject *)(f)->f_code)
#endif
#if DD_FRAME_HAS_FUNCOBJ
#define FRAME_FUNC(f) ((f)->f_funcobj)
#else
#define FRAME_FUNC(f) ((PyObject *)(f)->f_func)
#endif

/* Drops a frame that never started, as clear_thread_frame and _PyThreadState_PopFrame do (both are internal to ceval.c and pystate.c).
 * Such a frame is not linked into the thread's frame chain yet and has no frame object. */
static void dispose(PyThreadState *tstate, _PyInterpreterFrame *frame)
{
#if DD_EVALUATOR_CLEARS_FRAME
    for (int i = 0; i < frame->stacktop; i++)
        Py_XDECREF(frame->localsplus[i]);
    Py_XDECREF(frame->f_locals);
    Py_DECREF(FRAME_FUNC(frame));
    Py_DECREF(FRAME_CODE(frame));
    PyObject **base = (PyObject **)frame;
    _PyStackChunk *chunk = tstate->datastack_chunk;
    if (base != &chunk->data[0]) {
        tstate->datastack_top = base;
        return;
    }
    _PyStackChunk *previous = chunk->previous;
    PyObjectArenaAllocator arena; /* chunks come from _PyObject_VirtualAlloc, which is this allocator */
    PyObject_GetArenaAllocator(&arena);
    tstate->datastack_top = &previous->data[previous->top];
    tstate->datastack_chunk = previous;
    arena.free(arena.ctx, chunk, chunk->size);
    tstate->datastack_limit = (PyObject **)((char *)previous + previous->size);
#else
    (void)tstate;
    (void)frame;
#endif
}

/* *native = true: nothing was done, run the frame. */
static PyObject *serve_frame(Thread *t, Compiled *c, _PyInterpreterFrame *frame, bool *native)
{
    PyObject *func = FRAME_FUNC(frame), *result;
    Py_ssize_t n = c->slots + c->cells;
    if (!c->cells)
        result = dd_serve(t, c, frame->localsplus, n, native);
    else {
        PyObject *small[DD_STACK_INPUTS], **inputs = n <= DD_STACK_INPUTS ? small : PyMem_New(PyObject *, n);
        if (!inputs)
            return PyErr_NoMemory();
        memcpy(inputs, frame->localsplus, (size_t)c->slots * sizeof(PyObject *));
        dd_copy_cells(c, func, inputs + c->slots);
        result = dd_serve(t, c, inputs, n, native);
        if (inputs != small)
            PyMem_Free(inputs);
    }
    if (result && Py_IS_TYPE(result, &dd_Tail_Type))
        result = dd_drive(t, result, c->context);
    return result;
}

/* Whether the frame is the body of a module that is being imported. */
static bool is_import(const _PyInterpreterFrame *frame)
{
    if (frame->f_locals != frame->f_globals || !frame->f_globals)
        return false;
    PyObject *spec = PyDict_GetItemString(frame->f_globals, "__spec__"); /* borrowed */
    if (!spec || spec == Py_None)
        return false;
    PyObject *flag = PyObject_GetAttrString(spec, "_initializing");
    bool is = flag == Py_True;
    if (!flag)
        PyErr_Clear();
    Py_XDECREF(flag);
    return is;
}

/* Torch calls the methods of modes while it holds locks of tensors that it shows them: looking at such a tensor may never end.
 * (`grad_fn` of a written view locks it and sets its hooks, which function modes see.) */
static bool is_of_mode(PyCodeObject *code)
{
    static PyObject *function, *dispatch; /* interned, as names of code are */
    if (!function)
        function = PyUnicode_InternFromString("__torch_function__");
    if (!dispatch)
        dispatch = PyUnicode_InternFromString("__torch_dispatch__");
    if (!function || !dispatch)
        PyErr_Clear();
    return code->co_name == function || code->co_name == dispatch;
}

/* The hook looks away. What a module computes while it is imported is nobody's model code, and its objects are half made. */
static PyObject *eval_unseen(Thread *t, _PyFrameEvalFunction plain, PyThreadState *tstate, _PyInterpreterFrame *frame)
{
    int was_native = t->native;
    t->native = 0;
    PyObject *result = plain(tstate, frame, 0);
    t->native = was_native;
    return result;
}

static PyObject *eval_frame(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag)
{
    Thread *t = &dd_thread;
    _PyFrameEvalFunction plain = dd_scopes.previous;

    /* tstate->tracing: trace, profile and sys.monitoring callbacks are nobody's model code. */
    if (!t->native || throwflag || tstate->tracing || t->stance == DD_STANCE_EAGER || frame->owner != FRAME_OWNED_BY_THREAD)
        return plain(tstate, frame, throwflag);
    PyObject *func = FRAME_FUNC(frame), *code = FRAME_CODE(frame);
    if (t->skip == func) {
        t->skip = NULL;
        return plain(tstate, frame, throwflag);
    }
    int flags = PyCode_Check(code) ? ((PyCodeObject *)code)->co_flags : 0;
    if (PyCode_Check(code) && (flags & CO_OPTIMIZED ? is_of_mode((PyCodeObject *)code) : is_import(frame)))
        return eval_unseen(t, plain, tstate, frame);
    if (!(flags & CO_OPTIMIZED) || !(flags & CO_NEWLOCALS) || flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR) || !PyFunction_Check(func))
        return plain(tstate, frame, throwflag);

    PyObject *compiled = decide(t, func, code);
    bool native = true;
    PyObject *result = NULL;
    if (!compiled)
        native = false;
    else if (compiled != Py_None) {
        Compiled *c = (Compiled *)compiled;
        /* One code may run with other globals (exec'd copies, FunctionType): the entries were made for c->fn's. */
        if (c->cache->mode != DD_SKIP && PyFunction_GET_GLOBALS(c->fn) == frame->f_globals && !Py_EnterRecursiveCall(" while serving a frame")) {
            result = serve_frame(t, c, frame, &native);
            Py_LeaveRecursiveCall();
        }
        else if (PyErr_Occurred())
            native = false;
    }
    Py_XDECREF(compiled);
    if (native)
        return plain(tstate, frame, throwflag);
    dispose(tstate, frame);
    return result;
}

/* ---- module functions ---- */

/* A scope that Python code opens and closes: the frames between are looked at as those of a native step are. */
static const char scope_name[] = "dynamo._C.scope";

static void free_scope(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, scope_name));
}

static PyObject *enter_scope(PyObject *Py_UNUSED(mod), PyObject *context)
{
    Scope *saved = PyMem_Malloc(sizeof(Scope));
    if (!saved)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(saved, scope_name, free_scope);
    if (!capsule) {
        PyMem_Free(saved);
        return NULL;
    }
    dd_scope_enter(&dd_thread, saved, context, NULL);
    return capsule;
}

static PyObject *leave_scope(PyObject *Py_UNUSED(mod), PyObject *capsule)
{
    Scope *saved = PyCapsule_GetPointer(capsule, scope_name);
    if (!saved)
        return NULL;
    dd_scope_leave(&dd_thread, saved);
    Py_RETURN_NONE;
}

/* Puts a callable or None into *slot and returns what was there. */
static PyObject *set_handler(PyObject **slot, PyObject *handler, const char *name)
{
    if (handler != Py_None && !PyCallable_Check(handler))
        return PyErr_Format(PyExc_TypeError, "%s: expected a callable or None, not %.100s", name, Py_TYPE(handler)->tp_name);
    PyObject *old = *slot;
    *slot = handler == Py_None ? NULL : Py_NewRef(handler);
    return old ? old : Py_NewRef(Py_None);
}

static PyObject *set_frame_handler(PyObject *Py_UNUSED(mod), PyObject *handler)
{
    PyObject *old = set_handler(&frame_handler, handler, "set_frame_handler");
    dd_scopes.evaluator = eval_frame;
    dd_scopes.wanted = frame_handler != NULL;
    return old;
}

static PyObject *set_frozen_handler(PyObject *Py_UNUSED(mod), PyObject *handler)
{
    return set_handler(&dd_frozen_handler, handler, "set_frozen_handler");
}

static PyObject *reset_frames(PyObject *Py_UNUSED(mod), PyObject *Py_UNUSED(ignored))
{
    forget_all();
    Py_RETURN_NONE;
}

static PyObject *hook_active(PyObject *Py_UNUSED(mod), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(dd_scopes.installed);
}

static PyObject *disabled_call(PyObject *Py_UNUSED(mod), PyObject *args)
{
    PyObject *fn, *fn_args, *fn_kwargs, *then = Py_None;
    Thread *t = &dd_thread;
    if (!PyArg_ParseTuple(args, "OO!O|O:disabled_call", &fn, &PyTuple_Type, &fn_args, &fn_kwargs, &then))
        return NULL;
    if (fn_kwargs != Py_None && !PyDict_Check(fn_kwargs))
        return PyErr_Format(PyExc_TypeError, "disabled_call: kwargs must be a dict or None, not %.100s", Py_TYPE(fn_kwargs)->tp_name);
    int was_native = t->native;
    t->native = 0;
    t->disabled++;
    PyObject *result = PyObject_Call(fn, fn_args, fn_kwargs == Py_None ? NULL : fn_kwargs);
    t->disabled--;
    if (then != Py_None) {
        PyObject *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        PyObject *done = PyObject_CallOneArg(then, result ? Py_True : Py_False);
        if (done)
            PyErr_Restore(kind, error, trace);
        else {
            Py_XDECREF(kind);
            Py_XDECREF(error);
            Py_XDECREF(trace);
            Py_CLEAR(result);
        }
        Py_XDECREF(done);
    }
    t->native = was_native;
    return result;
}

static PyObject *set_stance(PyObject *Py_UNUSED(mod), PyObject *arg)
{
    long stance = PyLong_AsLong(arg), old = dd_thread.stance;
    if (stance == -1 && PyErr_Occurred())
        return NULL;
    if (stance < DD_STANCE_DEFAULT || stance > DD_STANCE_EAGER)
        return PyErr_Format(PyExc_ValueError, "set_stance: %ld is not 0 (default), 1 (frozen) or 2 (force eager)", stance);
    dd_thread.stance = (int)stance;
    return PyLong_FromLong(old);
}

PyMethodDef dd_hook_methods[] = {
    {"set_frame_handler", set_frame_handler, METH_O, "set_frame_handler(handler, /)\n--\n\nhandler(function, context) -> Compiled or None decides once per (code, context) about frames reached from native code. Returns the old handler."},
    {"set_frozen_handler", set_frozen_handler, METH_O, "set_frozen_handler(handler, /)\n--\n\nhandler(compiled, inputs) hears of every call that found no entry under the frozen stance. Returns the old handler."},
    {"reset_frames", reset_frames, METH_NOARGS, "reset_frames()\n--\n\nForget what the frame handler decided."},
    {"hook_active", hook_active, METH_NOARGS, "hook_active()\n--\n\nTrue while the PEP 523 evaluator is installed."},
    {"disabled_call", disabled_call, METH_VARARGS, "disabled_call(fn, args, kwargs, then=None, /)\n--\n\nCall fn with every Compiled running natively and the hook off, in this thread, until it returns, then then(whether it returned), whose error wins. fn sees no frame between its caller's and its own."},
    {"enter_scope", enter_scope, METH_O, "enter_scope(context, /)\n--\n\nFrom here on the hook looks at frames of this thread, on behalf of the context. Gives what leave_scope takes."},
    {"leave_scope", leave_scope, METH_O, "leave_scope(scope, /)\n--\n\nUndo the enter_scope that gave the scope; each scope is left once, in the reverse order."},
    {"set_stance", set_stance, METH_O, "set_stance(stance, /)\n--\n\n0 default, 1 frozen, 2 force eager; per thread. Returns the old one."},
    {NULL, NULL, 0, NULL},
};
