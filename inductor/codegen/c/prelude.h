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

/* Half types are storage only: arithmetic happens in float. Written with integers so that loops over them vectorise. */
INLINE float bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
INLINE uint32_t f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
INLINE float bf16_to_f32(bf16 h) { return bits_f32((uint32_t)h << 16); }
INLINE bf16 f32_to_bf16(float f) {
    uint32_t u = f32_bits(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (bf16)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
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

/* NaN wins, as in torch. */
INLINE float max_f32(float a, float b) { return (a > b || a != a) ? a : b; }
INLINE float min_f32(float a, float b) { return (a < b || a != a) ? a : b; }
INLINE double max_f64(double a, double b) { return (a > b || a != a) ? a : b; }
INLINE double min_f64(double a, double b) { return (a < b || a != a) ? a : b; }
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
