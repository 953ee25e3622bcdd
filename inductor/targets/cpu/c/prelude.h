#include <stdint.h>
#include <string.h>
#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#define RESTRICT __restrict__
#define INLINE static inline __attribute__((always_inline))
typedef uint16_t bf16;
typedef uint16_t f16;

/* Asks for the lines of [p, p + bytes) a little ahead. Much further ahead is worse than not at all: lines are gone again. */
INLINE void prefetch(const void *p, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + i + 256);
}

/* Half types are storage only: arithmetic happens in float. Written with integers so that loops over them vectorise. */
INLINE float bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
INLINE uint32_t f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
INLINE float bf16_to_f32(bf16 h) { return bits_f32((uint32_t)h << 16); }
INLINE bf16 f32_to_bf16(float f) {
    uint32_t u = f32_bits(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (bf16)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
/* The number that f32_to_bf16 would store, as a float. */
static int none; /* 0, which no compiler knows */
__attribute__((constructor)) static void make_none(void) { __asm__ volatile("" : "+m"(none)); }

INLINE float round_bf16(float f) {
    uint32_t u = f32_bits(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
    return f != f ? f : bits_f32(rounded);
}
INLINE float f16_to_f32(f16 h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    float scaled = bits_f32(rest) * 0x1p112f; /* moves the exponent bias; also right for subnormal halves */
    uint32_t u = f32_bits(scaled);
    u = (h & 0x7c00u) == 0x7c00u ? (rest | 0x7f800000u) : u;
    return bits_f32(u | sign);
}
INLINE f16 f32_to_f16(float f) {
    uint32_t u = f32_bits(f), sign = u & 0x80000000u;
    u ^= sign;
    uint32_t subnormal = f32_bits(bits_f32(u) + 0.5f) - 0x3f000000u;
    uint32_t normal = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
    uint32_t special = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t out = u >= 0x47800000u ? special : (u < 0x38800000u ? subnormal : normal);
    return (f16)(out | (sign >> 16));
}
INLINE float round_f16(float f) {
    uint32_t u = f32_bits(f), sign = u & 0x80000000u;
    u ^= sign;
    uint32_t subnormal = f32_bits(bits_f32(u) + 0.5f - 0.5f); /* multiples of 2^-24 */
    uint32_t normal = (u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u;
    uint32_t out = u < 0x38800000u ? subnormal : (normal > 0x477fe000u ? 0x7f800000u : normal);
    return bits_f32((u > 0x7f800000u ? u : out) | sign);
}

/* NaN wins, as in torch. */
INLINE float max_f32(float a, float b) { float m = a > b ? a : b; return a != a ? a : m; }
INLINE float min_f32(float a, float b) { float m = a < b ? a : b; return a != a ? a : m; }
INLINE double max_f64(double a, double b) { double m = a > b ? a : b; return a != a ? a : m; }
INLINE double min_f64(double a, double b) { double m = a < b ? a : b; return a != a ? a : m; }
/* The compiler itself contracts nothing: a value that is rounded in one loop must be so in another, or their difference shows it. */
#ifdef __FMA__
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif
/* exp within 1.6 ULP, denormal results included. Inline: a call would empty the vector registers in every round of a loop.
   x = 2k ln 2 + r; adding 1.5 * 2^23 rounds to k and leaves it in the low bits; 2^2k is applied as 2^k twice, for range. */
INLINE float exp_f32(float x) {
    float shifted = FMA(x, 0.72134752f, 12582912.0f), k = shifted - 12582912.0f;
    float r = FMA(-k, 1.38629150390625f, x);
    r = FMA(-k, 2.857214e-06f, r);
    float p = 0.00019611852f;
    p = FMA(p, r, 0.0014104263f);
    p = FMA(p, r, 0.008336098f);
    p = FMA(p, r, 0.041661277f);
    p = FMA(p, r, 0.16666615f);
    p = FMA(p, r, 0.50000036f);
    p = FMA(p, r, 1.0f);
    p = FMA(p, r, 1.0f);
    float scale = bits_f32((f32_bits(shifted) << 23) + 0x3f800000u);
    p = p * scale * scale;
    p = x > 89.0f ? INFINITY : p;
    return x < -105.0f ? 0.0f : p;
}
/* erf within 1.5 ULP (libmvec's: 4). Up to 0.9 x + x P(x^2), beyond 1 - exp(-R(|x|)) with R = -log(erfc), up to 4, where it is 1.
   Both are least maximum fits; exp's is for [-18, -1.5], where its relative error counts for a fifth. */
INLINE float erf_f32(float x) {
    float a = fabsf(x), t = x * x;
    float near = -0.00060903589f;
    near = FMA(near, t, 0.0050119627f);
    near = FMA(near, t, -0.026778908f);
    near = FMA(near, t, 0.11282141f);
    near = FMA(near, t, -0.37612525f);
    near = FMA(near, t, 0.12837915f);
    near = FMA(near, x, x);
    float c = a > 4.0f ? 4.0f : a, r = 0.00019822024f;
    r = FMA(r, c, -0.0030654955f);
    r = FMA(r, c, 0.022315232f);
    r = FMA(r, c, -0.10411371f);
    r = FMA(r, c, -0.63697606f);
    r = FMA(r, c, -1.1277972f);
    r = FMA(r, c, -0.00016644293f);
    float shifted = FMA(r, 1.44269504f, 12582912.0f);
    r = FMA(12582912.0f - shifted, 0.69314718f, r);
    float p = 0.0082976539f;
    p = FMA(p, r, 0.041915383f);
    p = FMA(p, r, 0.16667575f);
    p = FMA(p, r, 0.49998894f);
    p = FMA(p, r, 0.9999997f);
    p = FMA(p, r, 1.0000001f);
    p = FMA(-p, bits_f32((f32_bits(shifted) << 23) + 0x3f800000u), 1.0f);
    return a > 0.9f ? copysignf(p, x) : near;
}
/* Philox4x32-10: see ir/philox.py */
INLINE float philox_f32(int64_t seed, int64_t counter, int64_t thread, int64_t lane)
{
    uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)thread, (uint32_t)(thread >> 32)};
    uint32_t first = (uint32_t)seed, second = (uint32_t)(seed >> 32);
    for (int k = 0; k < 10; k++) {
        uint64_t a = x[0] * (uint64_t)0xD2511F53, b = x[2] * (uint64_t)0xCD9E8D57;
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ first, x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ second, x[3] = (uint32_t)a;
        first += 0x9E3779B9, second += 0xBB67AE85;
    }
    return (float)x[lane] * 0x1p-32f + 0x1p-33f;
}
INLINE uint8_t signbit_f32(float a) { return f32_bits(a) >> 31; }
INLINE uint8_t signbit_f64(double a) { uint64_t u; memcpy(&u, &a, 8); return u >> 63; }
INLINE float remainder_f32(float a, float b) { float m = fmodf(a, b); return m != 0 && ((b < 0) != (m < 0)) ? m + b : m; }
INLINE double remainder_f64(double a, double b) { double m = fmod(a, b); return m != 0 && ((b < 0) != (m < 0)) ? m + b : m; }
INLINE float floordiv_f32(float a, float b) {
    if (b == 0) return a / b;
    float m = fmodf(a, b), d = (a - m) / b;
    if (m != 0 && ((b < 0) != (m < 0))) d -= 1;
    if (d == 0) return copysignf(0, a / b);
    float f = floorf(d);
    return d - f > 0.5f ? f + 1 : f;
}
INLINE double floordiv_f64(double a, double b) {
    if (b == 0) return a / b;
    double m = fmod(a, b), d = (a - m) / b;
    if (m != 0 && ((b < 0) != (m < 0))) d -= 1;
    if (d == 0) return copysign(0, a / b);
    double f = floor(d);
    return d - f > 0.5 ? f + 1 : f;
}
INLINE long floor_div(long a, long b) { long q = a / b; return q - (a % b < 0); }
INLINE long floor_mod(long a, long b) { long m = a % b; return m < 0 ? m + b : m; }
