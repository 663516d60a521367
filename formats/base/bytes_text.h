/* bytes_text.h - bytes as people read them. */
#pragma once

#include <stdint.h>

enum { MP_BYTES_TEXT_MAX = 64 };

/* "7.43 GiB" into `text` of MP_BYTES_TEXT_MAX; returns it. */
const char *mp_bytes_text(int64_t bytes, char *text);
/* What fragmentation costs an arena: "as much as lives at the peak: no fragmentation", or how many % over that, into `text` of
 * MP_BYTES_TEXT_MAX; returns it. */
const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes, char *text);
