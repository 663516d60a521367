/* flops.c - FLOPs of products, from shapes that were inferred: a multiply-add is 2, additions of biases are not counted. */
#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/attention.h"
#include "estimator/rules/operands/einsum.h"
#include "estimator/rules/operands/matmul.h"
#include "estimator/rules/operands/recurrent.h"

/* Every element of `dense` meets the weight's slice of one channel: all but its first dimension. */
static double window_flops(const mp_tensor *dense, const mp_tensor *weight)
{
    return 2.0 * (double)mp_tensor_elements(dense) * (double)mp_product(weight->dims, 1, weight->rank);
}

/* An output element sums over C/group channels and the window. */
double mp_flops_conv(const mp_model *model, const mp_operator *op)
{
    return window_flops(mp_operator_out(model, op, 0), mp_operator_in(model, op, 1));
}

/* An input element is spread over M/group channels and the window. */
double mp_flops_conv_transpose(const mp_model *model, const mp_operator *op)
{
    return window_flops(mp_operator_in(model, op, 0), mp_operator_in(model, op, 1));
}

double mp_flops_matmul(const mp_model *model, const mp_operator *op)
{
    return 2.0 * (double)mp_tensor_elements(mp_operator_out(model, op, 0)) * (double)mp_matmul_operand(model, op, 0).columns;
}

double mp_flops_gemm(const mp_model *model, const mp_operator *op)
{
    return mp_flops_matmul(model, op);
}

/* Queries by keys, probabilities by values: masked positions are counted, too. */
double mp_flops_attention(const mp_model *model, const mp_operator *op)
{
    mp_attention a = mp_attention_read(model, op);
    return 2.0 * (double)a.n_batch * (double)a.rows * (double)a.columns * ((double)a.depth + (double)a.value_depth);
}

/* Two operands meet once for every combination of labels. One operand is only summed up. */
double mp_flops_einsum(const mp_model *model, const mp_operator *op)
{
    mp_einsum e;
    mp_infer c = {.model = (mp_model *)model, .op = (mp_operator *)op, .missing_value = -1}; /* only read */
    if (op->n_in != 2 || mp_einsum_read(&c, &e) != MP_OK) return 0;
    double flops = 2;
    for (int k = 0; k < MP_EINSUM_LABELS; k++)
        if (e.size[k] >= 0) flops *= (double)e.size[k];
    return flops;
}

double mp_flops_recurrent(const mp_model *model, const mp_operator *op)
{
    mp_recurrent r = mp_recurrent_read(model, op);
    return 2.0 * (double)r.n_steps * (double)r.batch * (double)r.n_directions * (double)r.gates * (double)r.hidden *
           ((double)r.input + (double)r.hidden);
}
