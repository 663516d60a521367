/* invariant.h - invariants of the code that debug builds verify. */
#pragma once

/* Aborts a build with MP_DEBUG (make SAN=1, TSAN=1, fuzzers) if the condition is false. Other builds do not evaluate it. For
 * invariants of the code alone: bad input is an mp_error. */
#ifdef MP_DEBUG
#include <assert.h>
#define MP_INVARIANT(condition) assert(condition)
#else
#define MP_INVARIANT(condition) ((void)sizeof(condition))
#endif
