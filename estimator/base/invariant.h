/* invariant.h - invariants of the code, verified in debug builds. */
#pragma once

/* Aborts a build with MP_DEBUG (make SAN=1, TSAN=1, fuzzers) if the condition is false. Other builds do not evaluate the
 * condition. Use it only for invariants of the code; bad input is reported by an mp_error. */
#ifdef MP_DEBUG
#include <assert.h>
#define MP_INVARIANT(condition) assert(condition)
#else
#define MP_INVARIANT(condition) ((void)sizeof(condition))
#endif
