/* public_without.h - the public functions that allocate nothing. */
#pragma once

#include "tests/cases/public_calls.h"

/* Their calls as text, "mp_plan_need(w->plan)"; NULL at the end. */
extern const char *const public_without[];

/* Calls them all, and fails the test if one allocates. */
void public_call_without(public_world *w);
