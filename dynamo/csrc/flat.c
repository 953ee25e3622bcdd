/* The flat form of a guard subtree that held: the words of memory it depends on, each with the value it had.
 *
 * As long as every word is unchanged the subtree holds, and nothing has to be walked. Such words are the version of a dict, the type of an
 * object, the size of a list, the fields of a tensor. The form keeps no input alive, and still reads no freed memory: the words are
 * sorted into levels, and a level is read only after all the words hold by which its objects are known to be alive.
 *
 * An object read from a dict whose version is the same is the very object of last time; it is called strong here. What comes from
 * elsewhere (a list, a cell, an input) is known by its address only, which another object may have got meanwhile. So everything about
 * such a weak object is among the words, or is looked at again as in a walk. */
#include "guards.h"

enum { EARNED = 16, TRIES = 2, LONGEST_WAIT = 10, MOST_LEVELS = 1000 };

typedef struct {
    const char *at;
    uint64_t want;
} Word;

/* What is not in words: a leaf of obj, or a kid of obj with all that is below. */
typedef struct {
    const Leaf *leaf;
    GuardNode *kid;
    PyObject *obj;       /* borrowed: alive once the words hold */
} Again;

struct Flat {
    PyObject *obj;       /* borrowed, only compared */
    Word *words;         /* by level */
    uint32_t *ends;      /* where each level ends */
    int levels;
    unsigned hits;
    int users;           /* checks that are looking at `again` now */
    bool orphan;         /* to be freed by the last of them */
    Again *again;
    PyObject **distinct;
    PyObject **pins;     /* strong: classes and constants whose address must not be given to another object */
    Py_ssize_t nagain, ndistinct, npins;
    Flat *next;
};

static inline uint64_t read_word(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* ---- checking ---- */

static bool unchanged(const Flat *f)
{
    const Word *word = f->words;
    for (int level = 0; level < f->levels; level++) {
        const Word *end = f->words + f->ends[level];
        uint64_t a = 0, b = 0;
        for (; end - word >= 4; word += 4) {
            a |= (read_word(word[0].at) ^ word[0].want) | (read_word(word[1].at) ^ word[1].want);
            b |= (read_word(word[2].at) ^ word[2].want) | (read_word(word[3].at) ^ word[3].want);
        }
        for (; word < end; word++)
            a |= read_word(word->at) ^ word->want;
        if (a | b)
            return false;
    }
    return true;
}

static void discard(Walk *w, Flat *f)
{
    f->next = w->garbage;
    w->garbage = f;
}

static int look_again(Walk *w, Flat *f)
{
    int ok = 1;
    f->users++;
    for (Py_ssize_t i = 0; i < f->nagain; i++) /* making a dict or an iterator may collect garbage, and that run anything */
        Py_INCREF(f->again[i].obj);
    for (Py_ssize_t i = 0; ok == 1 && i < f->nagain; i++) {
        const Again *again = &f->again[i];
        ok = again->leaf ? w->leaf(w, again->leaf, again->obj) : w->kid(w, again->kid, again->obj);
    }
    for (Py_ssize_t i = 0; i < f->nagain; i++)
        Py_DECREF(f->again[i].obj);
    if (--f->users == 0 && f->orphan) {
        f->orphan = false;
        discard(w, f);
    }
    return ok;
}

/* 1 holds, 0 does not, -1 error set, DD_STALE: only a walk can tell. */
int dd_flat_check(Walk *w, GuardNode *node, PyObject *obj)
{
    Flat *f = node->flat;
    if (f->obj != obj || !unchanged(f))
        return DD_STALE;
    if (f->hits < EARNED && ++f->hits == EARNED && node->below)
        dd_flat_drop(w, node);
    if (f->ndistinct) {
        memcpy(w->distinct + w->ndistinct, f->distinct, (size_t)f->ndistinct * sizeof(PyObject *));
        w->ndistinct += f->ndistinct;
    }
    return f->nagain ? look_again(w, f) : 1;
}

/* ---- making ---- */

typedef struct {
    Word word;
    int level;
} Drafted;

typedef struct {
    Walk *w;
    Drafted *words;
    Again *again;
    PyObject **distinct, **pins;
    Py_ssize_t n, nagain, ndistinct, npins;
    Py_ssize_t room, again_room, distinct_room, pins_room;
    int levels;
    bool failed;
} Draft;

static bool grow(Draft *d, void **items, Py_ssize_t n, Py_ssize_t *room, size_t size)
{
    if (n < *room)
        return true;
    Py_ssize_t more = *room ? *room * 2 : 16;
    void *made = PyMem_Realloc(*items, (size_t)more * size);
    if (!made) {
        d->failed = true;
        return false;
    }
    *items = made;
    *room = more;
    return true;
}

static void add_word(Draft *d, int level, const void *at)
{
    if (level >= MOST_LEVELS)
        d->failed = true;
    if (!grow(d, (void **)&d->words, d->n, &d->room, sizeof(Drafted)) || d->failed)
        return;
    d->words[d->n++] = (Drafted){{at, read_word(at)}, level};
    if (level >= d->levels)
        d->levels = level + 1;
}

static void add_again(Draft *d, const Leaf *leaf, GuardNode *kid, PyObject *obj)
{
    if (grow(d, (void **)&d->again, d->nagain, &d->again_room, sizeof(Again)))
        d->again[d->nagain++] = (Again){leaf, kid, obj};
}

static void add_distinct(Draft *d, PyObject *obj)
{
    if (grow(d, (void **)&d->distinct, d->ndistinct, &d->distinct_room, sizeof(PyObject *)))
        d->distinct[d->ndistinct++] = obj;
}

static void pin(Draft *d, PyObject *obj)
{
    for (Py_ssize_t i = d->npins; i > 0 && i > d->npins - 8; i--)
        if (d->pins[i - 1] == obj)
            return;
    if (grow(d, (void **)&d->pins, d->npins, &d->pins_room, sizeof(PyObject *)))
        d->pins[d->npins++] = Py_NewRef(obj);
}

typedef struct {
    Draft *draft;
    int level;
} TensorWords;

static void add_tensor_word(void *to, int level, const void *at)
{
    TensorWords *t = to;
    add_word(t->draft, t->level + level, at);
}

/* A place in the tree: what is known of its object. */
typedef struct {
    PyObject *obj;
    int level;      /* at which the object is known to be alive and at its address */
    int inside;     /* at which its type is known as well, so that what lies in it may be read */
    bool strong;
    bool opened;    /* of a dict: the words are in by which its items are known */
} Place;

/* Only instances of Python classes, and modules, can have their __class__ replaced. */
static bool fixed_type(PyTypeObject *type)
{
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

static void add_type(Draft *d, const GuardNode *node, Place *p)
{
    PyTypeObject *type = Py_TYPE(p->obj);
    bool needed = node->nkids, named = false;
    for (Py_ssize_t i = 0; i < node->nleaves; i++) {
        LeafKind kind = node->leaves[i].kind;
        needed |= !(dd_leaves[kind].flags & BY_ADDRESS);
        named |= kind == LEAF_type;
    }
    if (!needed || (p->strong && fixed_type(type)))
        return;
    add_word(d, p->level, &p->obj->ob_type);
    if (!named)
        pin(d, (PyObject *)type);
    if (!p->strong) /* of a strong object only the class can have changed, and classes that can be exchanged have one layout */
        p->inside = p->level + 1;
}

/* The version word of a dict; false if its version can't be relied upon. */
static bool add_version(Draft *d, Place *p)
{
    const uint64_t *at = PyDict_Check(p->obj) ? dd_version_of(p->obj) : NULL;
    if (at && !p->opened)
        add_word(d, p->inside, at);
    p->opened |= at != NULL;
    return at != NULL;
}

/* The words by which the value of one key is known, where the dict as a whole has no version. */
static const void *add_inline(Draft *d, Place *p, PyObject *key)
{
    const void *at = PyDict_CheckExact(p->obj) ? dd_inline_word(p->obj, key) : NULL;
    if (at && !p->opened) {
        add_word(d, p->inside, &((PyDictObject *)p->obj)->ma_keys);
        add_word(d, p->inside, &((PyDictObject *)p->obj)->ma_values);
    }
    p->opened |= at != NULL;
    if (at)
        add_word(d, p->inside + 1, at);
    return at;
}

/* The dict of an instance, with the words by which it is known. */
static Place place_of_dict(Draft *d, const Place *p)
{
    PyObject **slot = _PyObject_GetDictPtr(p->obj);
    Place dict = {slot ? *slot : NULL, p->inside + 1, p->inside + 1, false, false};
    if (slot)
        add_word(d, p->inside, slot);
    if (dict.obj && PyDict_CheckExact(dict.obj))
        dict.strong = add_version(d, &dict); /* a version is of one dict only */
    return dict;
}

static void flatten_leaf(Draft *d, const Leaf *leaf, Place *p)
{
    PyObject *obj = p->obj;
    bool done = false;
    switch (leaf->kind) {
    case LEAF_type: case LEAF_is: case LEAF_is_not: /* what they compare with outlives the use of the tree */
        done = true;
        break;
    case LEAF_distinct:
        add_distinct(d, obj);
        done = true;
        break;
    case LEAF_eq:
        done = leaf->fixed;
        if (done && !p->strong)
            pin(d, obj);
        break;
    case LEAF_len:
        done = true;
        if (PyDict_Check(obj))
            add_word(d, p->inside, &((PyDictObject *)obj)->ma_used);
        else if (PyList_Check(obj) || PyTuple_Check(obj))
            add_word(d, p->inside, &((PyVarObject *)obj)->ob_size);
        else
            done = p->strong && (PyUnicode_Check(obj) || PyBytes_Check(obj));
        break;
    case LEAF_dict_keys:
        if (PyDict_Check(obj) && !PyTuple_GET_SIZE(leaf->arg)) {
            add_word(d, p->inside, &((PyDictObject *)obj)->ma_used);
            done = true;
        } else /* the order of an OrderedDict can change without the dict's version */
            done = !PyODict_Check(obj) && add_version(d, p);
        break;
    case LEAF_has_key: case LEAF_no_key:
        done = add_version(d, p) || add_inline(d, p, leaf->arg);
        break;
    case LEAF_code:
        add_word(d, p->inside, &((PyFunctionObject *)obj)->func_code);
        done = true;
        break;
    case LEAF_tensor: {
        TensorWords to = {d, p->inside};
        Py_ssize_t n = d->n;
        done = dd_facts_words(leaf->arg, obj, add_tensor_word, &to);
        if (!done)
            d->n = n;
        break;
    }
    case LEAF_no_inst_attr: {
        Place dict = place_of_dict(d, p);
        if (dict.obj && !dict.strong) {
            add_word(d, dict.level, &dict.obj->ob_type);
            dict.inside++;
        }
        done = !dict.obj || dict.strong || add_inline(d, &dict, leaf->arg);
        break;
    }
    default:
        break;
    }
    if (!done)
        add_again(d, leaf, NULL, obj);
}

static bool flatten(Draft *d, GuardNode *node, Place p);

/* False: the kid can't be reached or held in words. */
static bool flatten_kid(Draft *d, GuardNode *kid, Place *p)
{
    PyObject *obj = p->obj, *found, **slot;
    int level = p->inside;
    switch (kid->accessor) {
    case ACCESSOR_dict_item:
        if (!PyDict_Check(obj) || !(found = PyDict_GetItemWithError(obj, kid->arg)))
            return false;
        if (add_version(d, p))
            return flatten(d, kid, (Place){found, level + 1, level + 1, true, false});
        const void *at = add_inline(d, p, kid->arg);
        return at && read_word(at) == (uintptr_t)found && flatten(d, kid, (Place){found, level + 2, level + 2, false, false});
    case ACCESSOR_inst_dict: {
        Place dict = place_of_dict(d, p);
        return dict.obj && PyDict_CheckExact(dict.obj) && flatten(d, kid, dict);
    }
    case ACCESSOR_list_item:
        if (!PyList_Check(obj) || kid->index >= PyList_GET_SIZE(obj))
            return false;
        slot = &((PyListObject *)obj)->ob_item[kid->index];
        add_word(d, level, &((PyVarObject *)obj)->ob_size);
        add_word(d, level, &((PyListObject *)obj)->ob_item);
        add_word(d, level + 1, slot);
        return flatten(d, kid, (Place){*slot, level + 2, level + 2, false, false});
    case ACCESSOR_tuple_item:
        if (!PyTuple_Check(obj) || kid->index >= PyTuple_GET_SIZE(obj))
            return false;
        slot = &((PyTupleObject *)obj)->ob_item[kid->index];
        if (p->strong)
            return flatten(d, kid, (Place){*slot, level, level, true, false});
        add_word(d, level, &((PyVarObject *)obj)->ob_size);
        add_word(d, level + 1, slot);
        return flatten(d, kid, (Place){*slot, level + 2, level + 2, false, false});
    case ACCESSOR_cell:
        if (!PyCell_Check(obj) || !PyCell_GET(obj))
            return false;
        add_word(d, level, &((PyCellObject *)obj)->ob_ref);
        return flatten(d, kid, (Place){PyCell_GET(obj), level + 1, level + 1, false, false});
    case ACCESSOR_type: /* named by a leaf, pinned, or static */
        return flatten(d, kid, (Place){(PyObject *)Py_TYPE(obj), level, level, true, false});
    case ACCESSOR_const:
        return kid->obj && flatten(d, kid, (Place){kid->obj, level, level, true, false});
    default:
        return false;
    }
}

static bool gave_up(const GuardNode *node)
{
    bool found = node->fails > TRIES;
    for (Py_ssize_t i = 0; !found && i < node->nkids; i++)
        found = gave_up(&node->kids[i]);
    return found;
}

/* Whether it is here that something changes all the time: the node could not keep a flat form, and it was not for a node below. */
static bool restless(const GuardNode *node)
{
    bool found = node->fails > TRIES;
    for (Py_ssize_t i = 0; found && i < node->nkids; i++)
        found = !gave_up(&node->kids[i]);
    return found;
}

static bool flatten(Draft *d, GuardNode *node, Place p)
{
    if (p.level >= MOST_LEVELS)
        return false;
    add_type(d, node, &p);
    for (Py_ssize_t i = 0; i < node->nleaves; i++) {
        const Leaf *leaf = &node->leaves[i];
        /* It held a moment ago. Garbage collection may have run since, so it must hold still. */
        if (leaf->kind != LEAF_distinct && d->w->leaf(d->w, leaf, p.obj) != 1)
            d->failed = true;
        else
            flatten_leaf(d, leaf, &p);
    }
    for (Py_ssize_t i = 0; !d->failed && i < node->nkids; i++) {
        Py_ssize_t nagain = d->nagain, ndistinct = d->ndistinct;
        if (!restless(&node->kids[i]) && flatten_kid(d, &node->kids[i], &p))
            continue;
        d->nagain = nagain; /* words beyond what is needed do no harm */
        d->ndistinct = ndistinct;
        add_again(d, NULL, &node->kids[i], p.obj);
    }
    return !d->failed;
}

static Flat *finish(Draft *d, PyObject *obj)
{
    Flat *f = PyMem_Calloc(1, sizeof(Flat));
    if (!f)
        return NULL;
    f->words = PyMem_New(Word, d->n + 1);
    f->ends = PyMem_Calloc((size_t)d->levels + 1, sizeof(uint32_t));
    f->obj = obj;
    f->levels = d->levels;
    f->again = d->again;
    f->distinct = d->distinct;
    f->pins = d->pins;
    f->nagain = d->nagain;
    f->ndistinct = d->ndistinct;
    f->npins = d->npins;
    d->again = NULL;
    d->distinct = d->pins = NULL;
    d->npins = 0;
    if (!f->words || !f->ends) {
        dd_flat_free(f);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < d->n; i++) /* a counting sort: ends[k] first becomes the start of level k, and then moves to its end */
        f->ends[d->words[i].level + 1 < d->levels ? d->words[i].level + 1 : d->levels]++;
    for (int level = 1; level < d->levels; level++)
        f->ends[level] += f->ends[level - 1];
    for (Py_ssize_t i = 0; i < d->n; i++)
        f->words[f->ends[d->words[i].level]++] = d->words[i].word;
    return f;
}

static Flat *make(Walk *w, GuardNode *node, PyObject *obj)
{
    Draft d = {.w = w};
    Flat *made = flatten(&d, node, (Place){obj, 0, 0, false, false}) && !d.failed ? finish(&d, obj) : NULL;
    PyErr_Clear();
    for (Py_ssize_t i = 0; i < d.npins; i++)
        Py_DECREF(d.pins[i]); /* not the last reference: the object was just looked at */
    PyMem_Free(d.words);
    PyMem_Free(d.again);
    PyMem_Free(d.distinct);
    PyMem_Free(d.pins);
    return made;
}

/* The subtree of `node` was walked and held for obj: makes its flat form. Where that turns out stale again and again before it has earned
 * what it cost, as something in it changes all the time, the nodes below get flat forms of their own, and it is tried again ever more rarely,
 * then without the nodes below that did no better. */
void dd_flat_settle(Walk *w, GuardNode *node, PyObject *obj)
{
    Flat *old = node->flat;
    if (node->wait) {
        node->wait--;
        return;
    }
    node->flat = NULL;
    if (old) {
        node->fails = old->hits < EARNED ? node->fails + (node->fails < LONGEST_WAIT) : 0;
        discard(w, old);
    }
    if (!old || node->fails <= TRIES)
        node->flat = make(w, node, obj);
    if (node->flat)
        return;
    node->wait = (uint16_t)(1 << node->fails);
    node->below = true;
    if (node->fails < LONGEST_WAIT)
        node->fails++;
}

/* Drops the flat forms below a node that has a good one now. */
void dd_flat_drop(Walk *w, GuardNode *node)
{
    for (Py_ssize_t i = 0; i < node->nkids; i++) {
        GuardNode *kid = &node->kids[i];
        if (restless(kid)) /* is not part of the form of this node */
            continue;
        if (kid->flat)
            discard(w, kid->flat);
        kid->flat = NULL;
        kid->fails = 0;
        kid->wait = 0;
        dd_flat_drop(w, kid);
    }
    node->below = false;
}

/* Frees a list of flat forms. */
void dd_flat_free(Flat *f)
{
    while (f) {
        Flat *next = f->next;
        f->next = NULL;
        if (f->users)
            f->orphan = true;
        else {
            for (Py_ssize_t i = 0; i < f->npins; i++)
                Py_DECREF(f->pins[i]);
            PyMem_Free(f->words);
            PyMem_Free(f->ends);
            PyMem_Free(f->again);
            PyMem_Free(f->distinct);
            PyMem_Free(f->pins);
            PyMem_Free(f);
        }
        f = next;
    }
}

int dd_flat_visit(Flat *f, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; f && i < f->npins; i++)
        Py_VISIT(f->pins[i]);
    return 0;
}
