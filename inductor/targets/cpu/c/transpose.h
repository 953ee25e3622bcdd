/* Patches of transposed memory: to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns. */
/* Elements of any type of that size: without `may_alias` a compiler may read them before they are written as what they are. */
typedef uint16_t __attribute__((may_alias)) any16;
typedef uint32_t __attribute__((may_alias)) any32;
typedef uint64_t __attribute__((may_alias)) any64;
typedef uint32_t v8u __attribute__((vector_size(32)));
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
INLINE void transpose_8x8(any32 *to, long to_step, const any32 *from, long from_step) {
    v8u a[8], b[8];
    for (int i = 0; i < 8; i++) memcpy(&a[i], from + i * from_step, 32);
    for (int i = 0; i < 8; i += 2) {
        b[i] = PICK(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[i + 1] = PICK(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = PICK(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[i + 1] = PICK(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        a[i + 2] = PICK(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        a[i + 3] = PICK(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        b[i] = PICK(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[i + 4] = PICK(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) memcpy(to + i * to_step, &b[i], 32);
}
static void transpose_4(void *to_, long to_step, const void *from_, long from_step, long rows, long columns) {
    any32 *RESTRICT to = to_;
    const any32 *RESTRICT from = from_;
    const long whole = columns & ~7L;
    long i = 0;
    for (; i + 8 <= rows; i += 8) {
        for (long j = 0; j < whole; j += 8) transpose_8x8(to + j * to_step + i, to_step, from + i * from_step + j, from_step);
        for (long j = whole; j < columns; j++)
            for (long k = i; k < i + 8; k++) to[j * to_step + k] = from[k * from_step + j];
    }
    for (; i < rows; i++)
        for (long j = 0; j < columns; j++) to[j * to_step + i] = from[i * from_step + j];
}
#define TRANSPOSE(size, type) \
    static void transpose_##size(void *to_, long to_step, const void *from_, long from_step, long rows, long columns) { \
        type *RESTRICT to = to_; \
        const type *RESTRICT from = from_; \
        for (long i = 0; i < rows; i++) \
            for (long j = 0; j < columns; j++) to[j * to_step + i] = from[i * from_step + j]; \
    }
TRANSPOSE(1, uint8_t)
TRANSPOSE(2, any16)
TRANSPOSE(8, any64)
