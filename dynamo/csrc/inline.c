/* Dicts that share their values with an object (see DD_INLINE_VALUES_SKIP_TAG): they have no version to rely upon, but their items have a place. */
#include "versions.h"

#if DD_INLINE_VALUES_SKIP_TAG

#define Py_BUILD_CORE 1
#include "guards.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <internal/pycore_dict.h>
#pragma GCC diagnostic pop

/* The word that changes when the value of this key does: its place among the values. If instances of the class have no such key yet, the
 * number of their keys: keys are only ever added. NULL if this is no such dict, or the key no exact str.
 * It may be read as long as the dict's ma_keys and ma_values are the same. */
const void *dd_inline_word(PyObject *dict, PyObject *key)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    if (!values || !PyUnicode_CheckExact(key) || !DK_IS_UNICODE(keys))
        return NULL;
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++)
        if (entries[i].me_key == key || (entries[i].me_key && PyUnicode_Compare(entries[i].me_key, key) == 0))
            return i < values->capacity ? &values->values[i] : NULL;
    return &keys->dk_nentries;
}

#else

#include "guards.h"

const void *dd_inline_word(PyObject *Py_UNUSED(dict), PyObject *Py_UNUSED(key))
{
    return NULL;
}

#endif
