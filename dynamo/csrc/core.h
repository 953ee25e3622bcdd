/* What the C files of dynamo._C share: object layouts, per-thread state, and the calls between files. */
#ifndef DYNAMO_CORE_H
#define DYNAMO_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "versions.h"

enum { DD_ACTIVE = 0, DD_RUN_ONLY = 1, DD_SKIP = 2 };             /* Cache.mode */
enum { DD_STANCE_DEFAULT = 0, DD_STANCE_FROZEN = 1, DD_STANCE_EAGER = 2 };

struct GuardNode;

/* What a check of a tree needs room for: "distinct" leaves, and groups of "same" leaves. */
typedef struct {
    Py_ssize_t distinct, groups;
} GuardCounts;

typedef struct {
    PyObject_HEAD
    struct GuardNode *root;
    GuardCounts counts;
    PyObject **distinct_ok;  /* the last object addresses found pairwise different; compared, never followed */
} GuardTree;

typedef struct {
    PyObject_HEAD
    GuardTree *guards;
    PyObject *fn;
    PyObject *info;
    PyObject *weakrefs;
    Py_ssize_t hits;
} Entry;

typedef struct {
    PyObject_HEAD
    PyObject *code;
    PyObject *entries;       /* immutable tuple, replaced as a whole: readers hold a reference and never see a change */
    PyObject *weakrefs;
    int mode;
    Py_ssize_t misses;
} Cache;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;
    PyObject *code;          /* fn's code when this object was made; another code runs natively */
    Cache *cache;
    PyObject *miss;
    PyObject *context;
    PyObject *raising;       /* NULL, or what makes a function of fn and an error that raises it inside the blocks that are open where fn begins */
    PyObject *dict;
    PyObject *weakrefs;
    PyObject *names;         /* names of the argument slots, in slot order */
    int posonly, argcount, kwonly, flags;
    Py_ssize_t slots;        /* argcount + kwonly + *args + **kwargs */
    Py_ssize_t cells;
    bool simple;             /* positional parameters only */
} Compiled;

typedef struct {
    PyObject_HEAD
    PyObject *fn;
    PyObject *args;
    int native;
} Tail;

/* Everything that differs between threads. `native` says whether the frame hook looks at frames now. */
typedef struct {
    int native;
    int disabled;
    int stance;
    PyObject *context;       /* borrowed from the Compiled that opened the native scope */
    PyObject *skip;          /* borrowed: the function whose own next frame the hook leaves alone */
} Thread;

typedef struct {
    int native;
    bool counted;
    PyObject *context;
    PyObject *skip;
} Scope;

/* The evaluator that scopes install, and whom it delegates to: the default, or a debugger's. */
typedef struct {
    _PyFrameEvalFunction evaluator, previous;
    bool wanted, installed;
} Scopes;

extern _Thread_local Thread dd_thread;
extern Scopes dd_scopes;
extern PyTypeObject dd_GuardTree_Type, dd_Entry_Type, dd_Cache_Type, dd_Compiled_Type, dd_Tail_Type, dd_Direct_Type,
    dd_TensorFacts_Type, dd_GlobalState_Type, dd_Definitions_Type;
extern PyObject *dd_frozen_handler;

#define DD_STACK_INPUTS 32   /* inputs up to this many need no allocation */

/* bind.c */
int dd_bind_shape(Compiled *c);
int dd_bind(Compiled *c, PyObject *const *args, size_t nargsf, PyObject *kwnames, PyObject **out);
void dd_copy_cells(Compiled *c, PyObject *fn, PyObject **out);

/* compiled.c */
PyObject *dd_serve(Thread *t, Compiled *c, PyObject *const *inputs, Py_ssize_t n, bool *native);
PyObject *dd_drive(Thread *t, PyObject *result, PyObject *context);

/* cache.c: the entry that fits (a new reference) or NULL, with an error set only if a guard raised something that isn't an Exception */
Entry *dd_cache_find(Cache *cache, PyObject *const *inputs, Py_ssize_t n);

/* guards.c: 1 holds, 0 does not, -1 an error that must propagate */
int dd_guards_check(GuardTree *tree, PyObject *const *inputs, Py_ssize_t n);

/* leaves.c */
int dd_strict_eq(PyObject *seen, PyObject *expected);
PyObject *dd_inst_dict(PyObject *obj);
Py_ssize_t dd_length(PyObject *obj);

/* tensor.c */
typedef struct {
    int raw;                 /* 1 offsets below are good, 0 the attribute API is used, -1 the same, but not calibrated yet */
    Py_ssize_t cdata, ndim, sizes, strides, dtype, keys, autograd;
    Py_ssize_t storage;      /* or -1 */
    Py_ssize_t meta_flag, meta_fn;  /* in a plain AutogradMeta, or -1: its word with requires_grad_, and grad_fn_ */
    uint64_t meta_plain;     /* vtable of a plain AutogradMeta: the meta of a view asks its base, too */
    bool (*requires_grad)(const void *);
    char reason[160];
} TensorLayout;
extern TensorLayout dd_layout;
int dd_layout_ready(void);
PyObject *dd_layout_report(PyObject *mod, PyObject *ignored);
uintptr_t dd_storage_of(PyObject *tensor); /* the StorageImpl of a plain tensor, where offsets are good and that of storage is known */
bool dd_facts_raw(PyObject *facts);
int dd_facts_check(PyObject *facts, PyObject *obj);
typedef void (*DDWord)(void *to, int level, const void *at);
bool dd_facts_words(PyObject *facts, PyObject *obj, DDWord word, void *to);

/* sharing.c */
PyObject *dd_sharing(PyObject *mod, PyObject *args);

/* defined.c */
int dd_defined_check(PyObject *definitions);
PyObject *dd_referent(PyObject *given);

/* state.c */
int dd_state_check(PyObject *state);
void *dd_torch_symbol(const char *name);
const char *dd_state_how(void);

/* scopes.c */
void dd_scope_enter(Thread *t, Scope *saved, PyObject *context, PyObject *skip);
void dd_scope_leave(Thread *t, Scope *saved);

/* hook.c */
extern PyMethodDef dd_hook_methods[];

static inline PyObject *dd_tuple_of(PyObject *const *items, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    if (tuple)
        for (Py_ssize_t i = 0; i < n; i++)
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
    return tuple;
}

/* Where a dict keeps its version: a number, never given twice, that changes whenever an item does. NULL if it can't be relied upon. */
static inline const uint64_t *dd_version_of(PyObject *dict)
{
#if DD_INLINE_VALUES_SKIP_TAG
    if (((PyDictObject *)dict)->ma_values)
        return NULL;
#endif
#if DD_TAG_IS_DEPRECATED
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    return &((PyDictObject *)dict)->ma_version_tag;
#if DD_TAG_IS_DEPRECATED
#pragma GCC diagnostic pop
#endif
}

/* True if an exception is set that a failing guard may swallow; it is then cleared. */
static inline bool dd_swallow(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    PyErr_Clear();
    return true;
}

#endif
