/* tuning.h - the constants that trade search time against better plans: MP_NAME for each row of tuning.def, which says what
 * each trades and how it was set. */
#pragma once

enum {
#define INTEGER(name, value, trades, origin) MP_##name = (value),
#define REAL(name, value, trades, origin)
#include "planner/math/tuning.def"
#undef INTEGER
#undef REAL
};

#define INTEGER(name, value, trades, origin)
#define REAL(name, value, trades, origin) static const double MP_##name = (value);
#include "planner/math/tuning.def"
#undef INTEGER
#undef REAL
