#include "estimator/ops.h"

#include <string.h>

#include "estimator/names.h"
#include "estimator/ops_rules.h"

/* The short names that the rows use. */
enum {
    ANY = -1,
    IN_PLACE = MP_TRAIT_IN_PLACE,
    GRADIENT_IN_PLACE = MP_TRAIT_GRADIENT_IN_PLACE,
    ELEMENTWISE = IN_PLACE + GRADIENT_IN_PLACE,
    RANDOM = MP_TRAIT_RANDOM,
    STATISTICS = MP_TRAIT_STATISTICS,
    GATHER = MP_TRAIT_GATHER,
    NEGATES = MP_TRAIT_NEGATES,
    IN0 = MP_IN(0),
    IN1 = MP_IN(1),
    IN2 = MP_IN(2),
    OUT0 = MP_OUT(0),
    OUT1 = MP_OUT(1),
    EXTRA0 = MP_EXTRA(0),
    EXTRA1 = MP_EXTRA(1),
    SELF = MP_SELF
};

/* Inputs past the last stated need have what the last one has: the list ends with the mark LAST. */
#define LAST (1u << 31)
#define NEEDS(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__, LAST                                                                                              \
    }
#define OP(name, domain, since, min_in, max_in, min_out, max_out, shape, fold, flops, traits, form, executor, pytorch, \
           extras)                                                                                                     \
    {#name,                                                                                                            \
     domain,                                                                                                           \
     since,                                                                                                            \
     min_in,                                                                                                           \
     max_in,                                                                                                           \
     min_out,                                                                                                          \
     max_out,                                                                                                          \
     shape,                                                                                                            \
     fold,                                                                                                             \
     flops,                                                                                                            \
     traits,                                                                                                           \
     MP_GRADIENT_##form,                                                                                               \
     {executor, pytorch},                                                                                              \
     extras},
static const mp_op rows[] = {
#include "estimator/ops.def"
};
#undef OP
