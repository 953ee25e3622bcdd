/* Fingerprints of memory: two contents with the same 128 bits are taken to be the same content. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t lanes[8];
} Fingerprint;

void fingerprint_start(Fingerprint *f);
void fingerprint_add(Fingerprint *f, const void *data, size_t size);

/* Runs a function in every thread of a team: GOMP_parallel. */
typedef void (*Team)(void (*)(void *), void *, unsigned, unsigned);

/* The same for large memory, shared among a team (NULL: none). The fingerprint does not depend on the number of threads. */
void fingerprint_add_shared(Fingerprint *f, const void *data, size_t size, Team team, unsigned threads);
void fingerprint_end(const Fingerprint *f, uint64_t out[2]);
