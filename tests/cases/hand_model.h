/* hand_model.h - tiny models written by hand in tests: every failure is a failed test. */
#pragma once

#include "estimator/model/model.h"

/* A tensor from outside: its dims are listed behind the rank. Data and outputs are declared. */
int hand_tensor(mp_model *model, const char *name, mp_role role, mp_dtype dtype, int rank, ...);
/* An operator; names are separated by blanks, "-" leaves one out. Inferred at once. Returns its index. */
int hand_operator(mp_model *model, const char *kind, const char *in, const char *out);
/* The same with attributes and a domain with its version. */
int hand_operator_with(mp_model *model, const char *kind, const char *domain, int version, const char *in, const char *out,
                       const mp_attribute *attributes, size_t n_attributes);
/* A known value of n integers (rank 1) as a constant. */
int hand_integers(mp_model *model, const char *name, int n, ...);
void hand_output(mp_model *model, const char *name);
