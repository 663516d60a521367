/* reduced.h - which dimensions a Reduce operator reduces, for every backend. */
#ifndef EXECUTOR_REDUCED_H
#define EXECUTOR_REDUCED_H

#include "executor/kernel.h"

/* The axes of a Reduce operator of any version, as marks on the dimensions of input 0. MP_UNSUPPORTED: not known yet. */
mp_status mp_reduced_dims(const mp_operands *x, bool reduced[MP_ARRAY_RANK], mp_error *err);
/* The result of a reduction with its reduced dimensions there, of size 1. */
mp_array mp_reduction_kept_dims(const mp_array *result, int rank, const bool *reduced);

#endif
