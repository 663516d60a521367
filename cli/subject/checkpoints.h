/* checkpoints.h - the tensors that --checkpoints names. */
#pragma once

#include "cli/subject/subject.h"

/* The storages that a user's comma-separated list of tensors names, found by tensor or storage name and through what
 * simplification did to them (which is said on standard error). MP_INVALID: a name that is not there (with the nearest that
 * is), or one that is no activation of the forward pass. *list is released with mp_free. */
mp_status subject_checkpoints(const subject *s, const char *names, int **list, size_t *n, mp_error *err);
