/* tuning.h - the constants that trade the time of a search against its plans, by name: MP_NAME for each row of tuning.def,
 * where it is said what each trades and what set it. */
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
