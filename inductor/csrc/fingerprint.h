/* Fingerprints of memory: two contents with the same 128 bits are taken to be the same content. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t lanes[8];
} Fingerprint;

void fingerprint_start(Fingerprint *f);
void fingerprint_add(Fingerprint *f, const void *data, size_t size);
void fingerprint_end(const Fingerprint *f, uint64_t out[2]);
