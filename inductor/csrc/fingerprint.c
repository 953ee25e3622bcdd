/* A hash that reads memory as fast as it comes, built like XXH3: eight 64-bit lanes; each word, mixed with a secret of its place in
 * a block of 1 KiB, adds the product of its halves to its lane and itself to the neighbour, and every block ends with a round
 * that makes the order of blocks matter. It answers "did anything change", so it has to spread well and need not resist attack. */
#include "fingerprint.h"
#include <string.h>

enum { LANES = 8, STRIPE = 64, STRIPES = 16 };

typedef uint64_t Lanes __attribute__((vector_size(STRIPE)));

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define FOR_EVERY_CPU
#endif

#ifdef __clang__
#define NEIGHBOURS(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define NEIGHBOURS(v) __builtin_shuffle(v, (Lanes){1, 0, 3, 2, 5, 4, 7, 6})
#endif

/* Constants of SHA-512, fractional parts of roots of primes: numbers with nothing up their sleeve. */
static const uint64_t SECRET[LANES + STRIPES] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u, 0x510e527fade682d1u, 0x9b05688c2b3e6c1fu,
    0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u, 0xcbbb9d5dc1059ed8u, 0x629a292a367cd507u, 0x9159015a3070dd17u, 0x152fecd8f70e5939u,
    0x67332667ffc00b31u, 0x8eb44a8768581511u, 0xdb0c2e0d64f98fa7u, 0x47b5481dbefa4fa4u, 0x428a2f98d728ae22u, 0x7137449123ef65cdu,
    0xb5c0fbcfec4d3b2fu, 0xe9b5dba58189dbbcu, 0x3956c25bf348b538u, 0x59f111f1b605d019u, 0x923f82a4af194f9bu, 0xab1c5ed5da6d8118u,
};
static const uint64_t PRIME = 0x9e3779b185ebca87u;

void fingerprint_start(Fingerprint *f) { memcpy(f->lanes, SECRET, sizeof f->lanes); }

static inline __attribute__((always_inline)) void add_stripe(Lanes *lanes, const char *at, const uint64_t *secret)
{
    Lanes word, key;
    memcpy(&word, at, sizeof word);
    memcpy(&key, secret, sizeof key);
    key ^= word;
    *lanes += (key & 0xffffffffu) * (key >> 32) + NEIGHBOURS(word);
}

static inline __attribute__((always_inline)) void end_block(Lanes *lanes)
{
    Lanes key;
    memcpy(&key, SECRET + STRIPES, sizeof key);
    *lanes = (*lanes ^ (*lanes >> 47) ^ key) * PRIME;
}

FOR_EVERY_CPU static void add_blocks(uint64_t *state, const char *at, size_t blocks)
{
    Lanes lanes;
    memcpy(&lanes, state, sizeof lanes);
    for (; blocks; blocks--) {
        for (int i = 0; i < STRIPES; i++, at += STRIPE)
            add_stripe(&lanes, at, SECRET + i);
        end_block(&lanes);
    }
    memcpy(state, &lanes, sizeof lanes);
}

void fingerprint_add(Fingerprint *f, const void *data, size_t size)
{
    const size_t block = STRIPE * STRIPES;
    char last[STRIPE * STRIPES + STRIPE] = {0};
    add_blocks(f->lanes, data, size / block);
    /* What is left, padded with zeros, with the size behind it: tensors of different sizes never look alike. */
    memcpy(last, (const char *)data + size / block * block, size % block);
    memcpy(last + block, &size, sizeof size);
    Lanes lanes;
    memcpy(&lanes, f->lanes, sizeof lanes);
    for (int i = 0; i <= STRIPES; i++)
        add_stripe(&lanes, last + i * STRIPE, SECRET + i % STRIPES);
    end_block(&lanes);
    memcpy(f->lanes, &lanes, sizeof lanes);
}

/* Memory in parts of a size that depends on its own alone, of which every thread takes the next until there is none. */
enum { PARTS = 64, LEAST_PART = 32 << 10 };

typedef struct {
    const char *data;
    size_t size, part, next;
    Fingerprint found[PARTS];
} Shared;

static void take_parts(void *given)
{
    Shared *s = given;
    for (size_t at; (at = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED) * s->part) < s->size;) {
        Fingerprint *f = &s->found[at / s->part];
        fingerprint_start(f);
        fingerprint_add(f, s->data + at, s->size - at < s->part ? s->size - at : s->part);
    }
}

void fingerprint_add_shared(Fingerprint *f, const void *data, size_t size, Team team, unsigned threads)
{
    Shared s = {.data = data, .size = size, .part = size / PARTS / LEAST_PART * LEAST_PART + LEAST_PART};
    if (team && threads > 1)
        team(take_parts, &s, threads, 0);
    else
        take_parts(&s);
    fingerprint_add(f, s.found, (size + s.part - 1) / s.part * sizeof *s.found);
}

static uint64_t folded(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

void fingerprint_end(const Fingerprint *f, uint64_t out[2])
{
    for (int half = 0; half < 2; half++) {
        const uint64_t *secret = SECRET + half * LANES;
        uint64_t sum = secret[0] * PRIME;
        for (int i = 0; i < LANES; i += 2)
            sum += folded(f->lanes[i] ^ secret[i], f->lanes[i + 1] ^ secret[i + 1]);
        sum = (sum ^ (sum >> 37)) * 0x165667919e3779f9u;
        out[half] = sum ^ (sum >> 32);
    }
}
