/* elementwise_tables.h - a backend's tables of elementwise operators. Included in one file per backend, which first defines
 * MP_ENGINE (the address of its engine), MP_UNARIES and MP_BINARIES (the names of the tables). */
#include "executor/operators/elementwise/elementwise.h"

#define PREPARE(name)                                                                   \
    static mp_status prepare_##name(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                                   \
        return mp_##name##_prepare(MP_ENGINE, x, call, err);                            \
    }
PREPARE(unary)
PREPARE(binary)
PREPARE(where)
PREPARE(biased)

#define UNARY_OP(kind, domain, f, slope, whole, ...) \
    {kind, domain, prepare_unary, MP_FORMULA_##slope == MP_FORMULA_none ? NULL : prepare_unary},
const mp_kernel MP_UNARIES[] = {
#include "executor/operators/elementwise/elementwise.def"
    {0},
};

#define BINARY_OP(kind, f, a, b, whole, traits) \
    {kind, "", prepare_binary, MP_FORMULA_##a == MP_FORMULA_none ? NULL : prepare_binary},
const mp_kernel MP_BINARIES[] = {
#include "executor/operators/elementwise/elementwise.def"
    {"Where", "", prepare_where, prepare_where},
    {"FastGelu", "com.microsoft", prepare_biased, prepare_biased},
    {"BiasGelu", "com.microsoft", prepare_biased, prepare_biased},
    {0},
};
