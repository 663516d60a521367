/* checksum.c - checksums by xxHash. */
#include "formats/base/checksum.h"

#include <stdio.h>
#include <xxhash.h>

mp_status mp_checksum_of(const mp_file_part *parts, size_t n, char text[MP_CHECKSUM_TEXT], mp_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return MP_NO_MEMORY(err);
    XXH3_128bits_reset(state);
    for (size_t k = 0; k < n; k++) XXH3_128bits_update(state, parts[k].bytes, parts[k].size);
    const XXH128_hash_t sum = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(text, MP_CHECKSUM_TEXT, "%016llx%016llx", (unsigned long long)sum.high64, (unsigned long long)sum.low64);
    return MP_OK;
}
