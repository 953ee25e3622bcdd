/* The compiled form of a guard tree, shared by its builder (build.c), its evaluator (guards.c) and what remembers a success (flat.c). */
#ifndef DYNAMO_GUARDS_H
#define DYNAMO_GUARDS_H

#include "core.h"
#include "kinds.h"

typedef struct {
    LeafKind kind;
    bool fixed;         /* "eq" with a value that can't change */
    long long id;
    Py_ssize_t n;       /* "len"; the group of "same" */
    PyObject *arg;
    PyObject *want;     /* what "type", "is", "is_not" and "code" compare with: arg, or the referent that it holds weakly */
} Leaf;

typedef struct Flat Flat;
typedef struct GuardNode GuardNode;

struct GuardNode {
    Accessor accessor;
    bool user;          /* something at or below this node may run user code: nothing is remembered across it */
    bool noted;         /* leaves at or below this node note down addresses */
    bool worth;         /* reads dicts here or below, and runs no user code: remembering a success saves time */
    bool below;         /* nodes below this one may hold a flat form */
    uint8_t fails;      /* flat forms in a row that did not earn what making them costs */
    uint16_t wait;      /* successes until the next try to make one */
    Py_ssize_t index;
    PyObject *arg;
    PyObject *obj;      /* of "const": arg, or the referent that it holds weakly */
    Leaf *leaves;
    Py_ssize_t nleaves;
    GuardNode *kids;
    Py_ssize_t nkids;
    Flat *flat;
};

/* One evaluation. `leaf` and `kid` check one leaf, and what is below one node: 1 holds, 0 does not, -1 error set. */
typedef struct Walk Walk;
struct Walk {
    int (*leaf)(Walk *w, const Leaf *leaf, PyObject *obj);
    int (*kid)(Walk *w, GuardNode *kid, PyObject *parent);
    PyObject *const *inputs;
    Py_ssize_t n;
    PyObject *tuple;        /* the inputs as a tuple, made only if a guard looks at it as an object */
    PyObject **distinct;    /* addresses collected by "distinct" leaves */
    Py_ssize_t ndistinct;
    PyObject **same;        /* per group of "same" leaves the object first met, or NULL */
    PyObject *kept;         /* a list of objects made meanwhile whose addresses were noted down, or NULL */
    bool covered;           /* a node above is about to get a flat form: those below need none */
    Flat *garbage;          /* flat forms to free when the evaluation is over, as freeing may run user code */
};

/* inline.c */
const void *dd_inline_word(PyObject *dict, PyObject *key);

/* flat.c */
enum { DD_STALE = 2 };
int dd_flat_check(Walk *w, GuardNode *node, PyObject *obj);
void dd_flat_settle(Walk *w, GuardNode *node, PyObject *obj);
void dd_flat_drop(Walk *w, GuardNode *node);
void dd_flat_free(Flat *flat);
int dd_flat_visit(Flat *flat, visitproc visit, void *arg);

/* build.c: the compiled form of a node tuple. */
GuardNode *dd_build(PyObject *spec, GuardCounts *counts);
void dd_free_node(GuardNode *root);
int dd_visit_node(GuardNode *node, visitproc visit, void *arg);

#endif
