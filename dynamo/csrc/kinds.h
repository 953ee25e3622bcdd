/* The vocabulary of guards: what a step of a guard tree reads, and what a leaf of it checks. A row here makes the enumerator, the name, the check
 * of the argument, the evaluation, and the line of `_C.guard_accessors` or `_C.guard_kinds`, of which the stub is written (`make accept`). Its other
 * half is the row of the same name in dynamo/source.py or dynamo/guards/kinds.py.
 *
 * A leaf that flat.c says nothing about is looked at in every check; a case in `flatten_leaf` holds it by the memory that it depends on. */
#ifndef DYNAMO_KINDS_H
#define DYNAMO_KINDS_H

#include <stdint.h>

enum {
    RUNS_CODE = 1,  /* may run code of the program; an accessor's object is then a new reference */
    AT_ROOT = 2,    /* a leaf of the root that looks at no object; its argument's why() tells what is wrong */
    BY_ADDRESS = 4, /* reads nothing that lies in the object, not even its type */
    NOTED = 8,      /* keeps the address for the rest of the walk */
    READS_DICT = 16
};

/* ARGUMENT(name, in words, whether `arg` is one). A check may leave what it read of it in `a`, or set an error. Where the argument is a class, a
 * code object or an object, an instance of a subclass of weakref.ref stands for its referent `a->want`, NULL once that is dead. */
#define DD_ARGUMENTS(ARGUMENT)                                                                \
    ARGUMENT(none, "None", arg == Py_None)                                                    \
    ARGUMENT(object, "an object", true)                                                       \
    ARGUMENT(class, "a class", !a->want || PyType_Check(a->want))                             \
    ARGUMENT(code, "a code object", !a->want || PyCode_Check(a->want))                        \
    ARGUMENT(index, "an index >= 0", read_number(arg, PY_SSIZE_T_MAX, a))                     \
    ARGUMENT(length, "an int >= 0", read_number(arg, PY_SSIZE_T_MAX, a))                      \
    ARGUMENT(group, "the number of a group", read_number(arg, MOST_GROUPS - 1, a))            \
    ARGUMENT(attribute, "an attribute name", PyUnicode_Check(arg))                            \
    ARGUMENT(key, "a hashable key", read_key(arg, a))                                         \
    ARGUMENT(keys, "a tuple of keys", PyTuple_Check(arg))                                     \
    ARGUMENT(value, "a value", read_value(arg, a))                                            \
    ARGUMENT(callable, "a callable", PyCallable_Check(arg))                                   \
    ARGUMENT(facts, "TensorFacts", Py_IS_TYPE(arg, &dd_TensorFacts_Type) && read_facts(arg, a)) \
    ARGUMENT(state, "a GlobalState", Py_IS_TYPE(arg, &dd_GlobalState_Type))                   \
    ARGUMENT(definitions, "Definitions", Py_IS_TYPE(arg, &dd_Definitions_Type))

/* ACCESSOR(name, argument, flags, the object of `node` from its `parent`: a reference, or NULL, in words) */
#define DD_ACCESSORS(ACCESSOR)                                                                                                       \
    ACCESSOR(root, none, 0, NULL, "the inputs tuple itself; global-state leaves live here")                                           \
    ACCESSOR(input, index, 0, node->index < w->n ? w->inputs[node->index] : NULL, "that item of the inputs, directly below the root") \
    ACCESSOR(const, object, 0, node->obj, "the object, held strongly (globals dicts, modules)")                                       \
    ACCESSOR(attr, attribute, RUNS_CODE, PyObject_GetAttr(parent, node->arg),                                                         \
             "getattr(parent, name) by the generic protocol; AttributeError = guard fails")                                           \
    ACCESSOR(inst_dict, none, READS_DICT, dd_inst_dict(parent), "parent.__dict__ (without creating one if it is absent: fails)")               \
    ACCESSOR(dict_item, key, READS_DICT, PyDict_Check(parent) ? PyDict_GetItemWithError(parent, node->arg) : NULL,                             \
             "PyDict_GetItem on a dict or an instance of a subclass, without user __getitem__")                                       \
    ACCESSOR(list_item, index, 0,                                                                                                     \
             PyList_Check(parent) && node->index < PyList_GET_SIZE(parent) ? PyList_GET_ITEM(parent, node->index) : NULL,             \
             "item of a list or an instance of a subclass, without user __getitem__")                                                 \
    ACCESSOR(tuple_item, index, 0,                                                                                                    \
             PyTuple_Check(parent) && node->index < PyTuple_GET_SIZE(parent) ? PyTuple_GET_ITEM(parent, node->index) : NULL,          \
             "the same of a tuple")                                                                                                   \
    ACCESSOR(cell, none, 0, PyCell_Check(parent) ? PyCell_GET(parent) : NULL, "cell contents; empty cell = fails")                    \
    ACCESSOR(type, none, 0, (PyObject *)Py_TYPE(parent), "type(parent)")                                                              \
    ACCESSOR(call, callable, RUNS_CODE, PyObject_CallOneArg(node->arg, parent), "callable(parent); an exception = fails")

/* LEAF(name, argument, flags, whether it holds of `obj`: 1, 0, or -1 with an error set, in words) */
#define DD_LEAVES(LEAF)                                                                                                               \
    LEAF(type, class, 0, (PyObject *)Py_TYPE(obj) == leaf->want, "type(obj) is the class")                                            \
    LEAF(is, object, BY_ADDRESS, obj == leaf->want, "obj is the object; the reference is held strongly")                              \
    LEAF(is_not, object, BY_ADDRESS, obj != leaf->want, "obj is another object")                                                      \
    LEAF(code, code, 0, PyFunction_Check(obj) && PyFunction_GET_CODE(obj) == leaf->want,                                              \
         "obj is a Python function and its __code__ is the code object")                                                              \
    LEAF(eq, value, 0, dd_strict_eq(obj, leaf->arg),                                                                                  \
         "type(obj) is type(value) and obj == value; for float and complex: bitwise (nan equals nan, 0.0 != -0.0); for tuple and "    \
         "frozenset deep, with the same rule")                                                                                        \
    LEAF(len, length, 0, dd_length(obj) == leaf->n, "length of a builtin container or string (C-level size, no user __len__)")        \
    LEAF(dict_keys, keys, READS_DICT, keys_are(obj, leaf->arg), "exactly these keys in this order (identity or type-strict eq)")      \
    LEAF(has_key, key, READS_DICT, has_key(obj, leaf->arg, true), "obj is a dict with the key, found without user code")              \
    LEAF(no_key, key, READS_DICT, has_key(obj, leaf->arg, false), "obj is a dict without the key")                                    \
    LEAF(no_inst_attr, attribute, READS_DICT, lacks_attribute(obj, leaf->arg),                                                        \
         "the instance dict has no such entry (or there is no instance dict)")                                                        \
    LEAF(tensor, facts, 0, dd_facts_check(leaf->arg, obj),                                                                            \
         "exact type, dtype, device, shape, stride, requires_grad, dispatch-key bits")                                                \
    LEAF(pred, callable, RUNS_CODE, call_predicate(leaf->arg, obj), "bool(callable(obj)); an exception = fails")                      \
    LEAF(distinct, none, BY_ADDRESS | NOTED, note_distinct(w, obj),                                                                   \
         "the objects of all nodes carrying this leaf are pairwise different objects")                                                \
    LEAF(same, group, BY_ADDRESS | NOTED, is_same(w, leaf->n, obj),                                                                   \
         "the objects of all nodes carrying this leaf with the same number are one object")                                           \
    LEAF(defined, definitions, AT_ROOT, dd_defined_check(leaf->arg), "names of modules, classes and functions mean what they meant")  \
    LEAF(state, state, AT_ROOT, dd_state_check(leaf->arg),                                                                            \
         "grad mode, inference mode, autocast state, default dtype, deterministic, ... are as snapshotted")

typedef struct {
    const char *name;
    const char *words;   /* of what it does */
    uint8_t argument;
    uint8_t flags;
} KindRow;

#define NAMED_ARGUMENT(name, words, check) ARGUMENT_##name,
#define NAMED_ACCESSOR(name, argument, flags, found, words) ACCESSOR_##name,
#define NAMED_LEAF(name, argument, flags, holds, words) LEAF_##name,
typedef enum { DD_ARGUMENTS(NAMED_ARGUMENT) } ArgumentKind;
typedef enum { DD_ACCESSORS(NAMED_ACCESSOR) } Accessor;
typedef enum { DD_LEAVES(NAMED_LEAF) } LeafKind;
#undef NAMED_ARGUMENT
#undef NAMED_ACCESSOR
#undef NAMED_LEAF

#define ONE_MORE(...) + 1
enum { ACCESSORS = 0 DD_ACCESSORS(ONE_MORE), LEAVES = 0 DD_LEAVES(ONE_MORE) };
#undef ONE_MORE

extern const KindRow dd_accessors[ACCESSORS], dd_leaves[LEAVES];
extern const char *const dd_argument_words[];

#endif
