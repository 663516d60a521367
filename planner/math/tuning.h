/* tuning.h - constants that trade search time for better plans. Each row of tuning.def defines one constant MP_NAME, and states
 * its meaning and the origin of its value. */
#pragma once

enum {
#define INTEGER(name, value, meaning, origin) MP_##name = (value),
#define REAL(name, value, meaning, origin)
#include "planner/math/tuning.def"
#undef INTEGER
#undef REAL
};

#define INTEGER(name, value, meaning, origin)
#define REAL(name, value, meaning, origin) static const double MP_##name = (value);
#include "planner/math/tuning.def"
#undef INTEGER
#undef REAL
