/* Native scopes: while some thread is inside one, the evaluator of hook.c looks at that thread's frames (PEP 523). */
#include "core.h"

_Thread_local Thread dd_thread;
Scopes dd_scopes;

static Py_ssize_t open_scopes; /* of all threads; guarded by the GIL */
static bool buried;            /* somebody put an evaluator on top of ours that presumably still calls ours */

static void install(void)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interp);
    if (now == _PyEval_EvalFrameDefault)
        buried = false;
    if (now != dd_scopes.evaluator && !buried) { /* on top of one that calls us we would call each other for ever */
        dd_scopes.previous = now;
        _PyInterpreterState_SetEvalFrameFunc(interp, dd_scopes.evaluator);
    }
    dd_scopes.installed = true;
}

static void uninstall(void)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    dd_scopes.installed = false;
    buried = _PyInterpreterState_GetEvalFrameFunc(interp) != dd_scopes.evaluator;
    if (!buried)
        _PyInterpreterState_SetEvalFrameFunc(interp, dd_scopes.previous);
}

/* From here until dd_scope_leave the hook looks at frames of this thread, except `skip`'s own next one.
 * Without a frame handler, or while disabled, the scope only switches the hook off. */
void dd_scope_enter(Thread *t, Scope *saved, PyObject *context, PyObject *skip)
{
    *saved = (Scope){t->native, dd_scopes.wanted && !t->disabled && t->stance != DD_STANCE_EAGER, t->context, t->skip};
    t->native = saved->counted;
    t->context = context;
    t->skip = skip;
    if (saved->counted && open_scopes++ == 0)
        install();
}

void dd_scope_leave(Thread *t, Scope *saved)
{
    if (saved->counted && --open_scopes == 0)
        uninstall();
    t->native = saved->native;
    t->context = saved->context;
    t->skip = saved->skip;
}
