/* hand_model.h - tiny models built by hand in tests. Each failure fails the test. */
#pragma once

#include "estimator/model/model.h"

/* Adds a tensor without a producer. The dims follow the rank. Data and outputs are declared. */
int hand_tensor(mp_model *model, const char *name, mp_role role, mp_dtype dtype, int rank, ...);
/* Adds an operator, infers its outputs immediately and returns its index. Blanks separate names; "-" omits an operand. */
int hand_operator(mp_model *model, const char *kind, const char *in, const char *out);
/* The same with attributes, and a domain with its version. */
int hand_operator_with(mp_model *model, const char *kind, const char *domain, int version, const char *in, const char *out,
                       const mp_attribute *attributes, size_t n_attributes);
/* Adds a constant with n integers (rank 1). */
int hand_integers(mp_model *model, const char *name, int n, ...);
void hand_output(mp_model *model, const char *name);
