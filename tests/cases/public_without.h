/* public_without.h - the public functions without allocations. */
#pragma once

#include "tests/cases/public_calls.h"

/* The calls as text, such as "mp_plan_need(w->plan)"; ended by NULL. */
extern const char *const public_without[];

/* Makes all these calls, and fails the test if one allocates. */
void public_call_without(public_world *w);
