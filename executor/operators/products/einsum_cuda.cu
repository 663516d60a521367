/* einsum_cuda.cu - Einstein summation by its definition (executor/operators/products/contraction.h): a row of threads computes
 * one element of the result, as a sum of its terms in double. */
#include "executor/cuda/grid/family.cuh"

extern "C" {
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/products/contraction.h"
}

namespace
{

struct contracted : mp_double_sums {
    enum { PHASES = 1 };
    mp_contraction c;
    mp_operand y, a, b;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        int64_t place[3];
        mp_contraction_result(&c, row, place);
        mp_contraction_term(&c, column, &place[1], &place[2]);
        return value{(double)a.load(place[1]) * (b.data ? (double)b.load(place[2]) : 1)};
    }
    MP_BODY void put(int64_t, int64_t, const value *) const {}
    MP_BODY void end(int64_t row, const value *totals) const
    {
        int64_t place[3];
        mp_contraction_result(&c, row, place);
        y.store(place[0], (float)totals[0].x);
    }
};

static void contract(const mp_contraction *c, mp_operand y, mp_operand a, mp_operand b)
{
    mp_rows_that_lie(true, c->n_results, c->n_terms, contracted{{}, *c, y, a, b});
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_einsum_sums *s = (const mp_einsum_sums *)call->state;
    if (!x->is_backward) contract(&s->sum[0], mp_output(x, 0), mp_input(x, 0), mp_input(x, 1));
    for (int i = x->from; x->is_backward && i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        mp_cuda_array_zero(
            &x->d_in[i]); /* if a label occurs twice in the operand, elements off the diagonal have a zero gradient */
        contract(&s->sum[1 + i], mp_input_gradient(x, i), mp_operand_of(&x->d_out[0]), mp_input(x, 1 - i));
    }
    return mp_launched(err);
}

MP_PREPARE_TO_RUN(prepare, mp_einsum_prepare, run)

} // namespace

extern "C" const mp_kernel mp_cuda_einsums[] = {{"Einsum", "", prepare, prepare}, {}};
