#include "executor/philox.h"

/* The constants of section 4.3 of the paper: two odd multipliers, and the Weyl increments golden ratio and sqrt(3) - 1. */
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u
#define WEYL_1 0xBB67AE85u
enum { ROUNDS = 10 };

mp_philox_block mp_philox(mp_philox_block c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)MULTIPLIER_0 * c.word[0], p1 = (uint64_t)MULTIPLIER_1 * c.word[2];
        c = (mp_philox_block){
            {(uint32_t)(p1 >> 32) ^ c.word[1] ^ key0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.word[3] ^ key1, (uint32_t)p0}};
        key0 += WEYL_0;
        key1 += WEYL_1;
    }
    return c;
}

uint32_t mp_random_word(uint64_t seed, uint32_t step, uint32_t op, uint64_t element)
{
    mp_philox_block counter = {{(uint32_t)(element >> 2), (uint32_t)(element >> 34), step, op}};
    return mp_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[element & 3];
}

float mp_random_uniform(uint64_t seed, uint32_t step, uint32_t op, uint64_t element)
{
    return (float)(mp_random_word(seed, step, op, element) >> 8) * 0x1p-24f;
}

enum { LANES = 16 };

/* LANES counters that follow each other, side by side: the rounds become vector code. */
static void uniforms_of_counters(uint64_t seed, uint32_t step, uint32_t op, uint64_t counter, float *out)
{
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES], key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int l = 0; l < LANES; l++) {
        a[l] = (uint32_t)(counter + (uint64_t)l);
        b[l] = (uint32_t)((counter + (uint64_t)l) >> 32);
        c[l] = step;
        d[l] = op;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int l = 0; l < LANES; l++) {
            uint64_t p0 = (uint64_t)MULTIPLIER_0 * a[l], p1 = (uint64_t)MULTIPLIER_1 * c[l];
            a[l] = (uint32_t)(p1 >> 32) ^ b[l] ^ key0;
            c[l] = (uint32_t)(p0 >> 32) ^ d[l] ^ key1;
            b[l] = (uint32_t)p1;
            d[l] = (uint32_t)p0;
        }
        key0 += WEYL_0;
        key1 += WEYL_1;
    }
    for (int l = 0; l < LANES; l++) {
        out[4 * l] = (float)(a[l] >> 8) * 0x1p-24f;
        out[4 * l + 1] = (float)(b[l] >> 8) * 0x1p-24f;
        out[4 * l + 2] = (float)(c[l] >> 8) * 0x1p-24f;
        out[4 * l + 3] = (float)(d[l] >> 8) * 0x1p-24f;
    }
}

void mp_random_uniforms(uint64_t seed, uint32_t step, uint32_t op, uint64_t from, int64_t n, float *out)
{
    while (n > 0) {
        if (from % 4 == 0 && n >= 4 * LANES) {
            uniforms_of_counters(seed, step, op, from / 4, out);
            from += 4 * LANES;
            out += 4 * LANES;
            n -= 4 * LANES;
        } else {
            *out++ = mp_random_uniform(seed, step, op, from++);
            n--;
        }
    }
}
