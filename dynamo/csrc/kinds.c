/* The tables of guard kinds, by name. */
#include "kinds.h"

#define IN_WORDS(name, words, check) words,
const char *const dd_argument_words[] = {DD_ARGUMENTS(IN_WORDS)};
#undef IN_WORDS

#define ROW(name, argument, flags, code, words) {#name, words, ARGUMENT_##argument, flags},
const KindRow dd_accessors[ACCESSORS] = {DD_ACCESSORS(ROW)};
const KindRow dd_leaves[LEAVES] = {DD_LEAVES(ROW)};
#undef ROW
