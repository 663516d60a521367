/* hashes.c - hashes bytes where they lie, or in parts that are copied to the host. */
#include "executor/run/hashes.h"

#include <stdio.h>
#include <xxhash.h>

/* Returns the hash of n bytes in the backend's memory, which are copied to the host in parts if needed. */
static XXH128_hash_t hash_of(const mp_backend *b, const char *there, int64_t n)
{
    char part[1 << 16];
    XXH128_hash_t none = {0, 0};
    if (b->is_host) return XXH3_128bits(there, (size_t)n);
    XXH3_state_t *state = XXH3_createState();
    if (!state) return none;
    XXH3_128bits_reset(state);
    for (int64_t at = 0; at < n; at += (int64_t)sizeof part) {
        int64_t bytes = n - at < (int64_t)sizeof part ? n - at : (int64_t)sizeof part;
        mp_array from = mp_array_plain(MP_DTYPE_UINT8, 1, &bytes), to = from;
        from.data = (char *)there + at;
        to.data = part;
        if (b->download(b, &from, &to, NULL) != MP_OK) break;
        XXH3_128bits_update(state, part, (size_t)bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

void mp_addresses_hash(const mp_addresses *a, unsigned kinds, char hash[33])
{
    const mp_graph *g = a->program->graph;
    XXH128_hash_t h = {0, 0};
    for (size_t s = 0; s < g->n_storages; s++) {
        if (!(kinds >> g->storages[s].kind & 1)) continue;
        XXH128_hash_t one = hash_of(a->program->backend, a->fixed + a->fixed_at[s], g->storages[s].payload_bytes);
        uint64_t words[4] = {h.low64, h.high64, one.low64, one.high64};
        h = XXH3_128bits(words, sizeof words);
    }
    snprintf(hash, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
