/* CPython quirks, one named flag each, with the evidence. Everything else in this folder tests flags, never PY_VERSION_HEX. */
#ifndef DYNAMO_VERSIONS_H
#define DYNAMO_VERSIONS_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "dynamo._C knows CPython 3.11, 3.12 and 3.13: add this version's facts to versions.h"
#endif

/* Who clears and pops a frame that a PEP 523 evaluator served.
 * 3.11: _PyEval_Vector calls _PyEvalFrameClearAndPop after the evaluator returns (Python/ceval.c 3.11, end of _PyEval_Vector).
 * 3.12+: _PyEval_Vector returns the evaluator's result as it is; the evaluator's exit path calls clear_thread_frame. */
#define DD_EVALUATOR_CLEARS_FRAME (PY_VERSION_HEX >= 0x030C0000)

/* The frame's code: f_code until 3.12, f_executable (code or None) from 3.13; its function: f_func in 3.11, f_funcobj from 3.12
 * (Include/internal/pycore_frame.h of each). */
#define DD_FRAME_HAS_EXECUTABLE (PY_VERSION_HEX >= 0x030D0000)
#define DD_FRAME_HAS_FUNCOBJ (PY_VERSION_HEX >= 0x030C0000)

/* Where a thread keeps the frame that runs: tstate->cframe->current_frame until 3.12, tstate->current_frame from 3.13
 * (Include/cpython/pystate.h). */
#define DD_FRAME_IS_IN_CFRAME (PY_VERSION_HEX < 0x030D0000)

/* How deep a thread may still call Python functions: recursion_remaining in 3.11, py_recursion_remaining from 3.12, where calls of C have
 * a count of their own (Include/cpython/pystate.h). */
#define DD_C_CALLS_COUNT_APART (PY_VERSION_HEX >= 0x030C0000)
static inline int *dd_calls_left(PyThreadState *tstate)
{
#if DD_C_CALLS_COUNT_APART
    return &tstate->py_recursion_remaining;
#else
    return &tstate->recursion_remaining;
#endif
}

/* What is raised, normalised and with its traceback, a new reference: PyErr_GetRaisedException is new in 3.12 (Include/cpython/pyerrors.h). */
#define DD_HAS_GET_RAISED (PY_VERSION_HEX >= 0x030C0000)
static inline PyObject *dd_take_error(void)
{
#if DD_HAS_GET_RAISED
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
#endif
}

/* A dict that shares its values with an object's inline values (ma_values != NULL) is changed through the object by
 * store_instance_attr_lock_held (Objects/dictobject.c 3.13), which leaves ma_version_tag alone; 3.13.0 doesn't tell dict watchers
 * either. Up to 3.12 materialising a dict moves the values out of the object, so every store goes through the dict and its tag.
 * Shown by tests/csrc/test_dict_cache.py, test_every_way_to_change_an_attribute_is_seen. */
#define DD_INLINE_VALUES_SKIP_TAG (PY_VERSION_HEX >= 0x030D0000)

/* PyWeakref_GetRef is new in 3.13, where PyWeakref_GetObject is deprecated (Include/cpython/weakrefobject.h). */
#define DD_HAS_WEAKREF_GETREF (PY_VERSION_HEX >= 0x030D0000)

/* ma_version_tag is marked deprecated from 3.12 (PEP 699) but still maintained through 3.13 (Include/cpython/dictobject.h);
 * from 3.12 its low bits are watcher bits, so only the whole word is compared. */
#define DD_TAG_IS_DEPRECATED (PY_VERSION_HEX >= 0x030C0000)

#endif
