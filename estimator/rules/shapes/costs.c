/* costs.c - FLOPs of products, and the tensors that a forward run saves for backward besides inputs and outputs: masks,
 * indices, statistics. Statistics have at least 32 bits, regardless of the activations' type. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/attention.h"
#include "estimator/rules/operands/einsum.h"
#include "estimator/rules/operands/recurrent.h"

/* Returns n * size bytes. On overflow returns INT64_MAX, which exceeds any budget. */
static int64_t saturated(int64_t n, int64_t size)
{
    int64_t bytes;
    return mp_multiply(n, size, &bytes) ? bytes : INT64_MAX;
}

static mp_extra extra_of(const char *name, mp_dtype dtype, int64_t n)
{
    return (mp_extra){.name = name, .dtype = dtype, .bytes = saturated(n, mp_dtype_bits(dtype) / 8)};
}

/* Returns the element type of statistics about tensor t. */
static mp_dtype statistic_type(const mp_tensor *t)
{
    return mp_dtype_bits(t->dtype) > 32 ? t->dtype : MP_DTYPE_FLOAT;
}

/* Adds one saved output per name: `n` statistics of tensor t. Returns the number of names. */
static int statistics(const mp_tensor *t, int64_t n, int n_names, const char *const *names, mp_extra *extras)
{
    for (int k = 0; k < n_names; k++) extras[k] = extra_of(names[k], statistic_type(t), n);
    return n_names;
}
static const char *const mean_and_rstd[] = {"mean", "rstd"};
static const char *const mean_and_invstd[] = {"mean", "invstd"};

/* Extras of Dropout. The executor recomputes the mask from the operator's random counter and saves nothing. PyTorch saves
 * the noise in the input's type; on a GPU it saves a mask with one byte per element. */
int mp_extras_dropout(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    if (rules == MP_RULES_EXECUTOR) return 0;
    const mp_tensor *y = mp_operator_out(model, op, 0);
    extras[0] = extra_of("noise", y->dtype, mp_tensor_elements(y));
    extras[0].gpu_bytes = mp_tensor_elements(y);
    return 1;
}

/* The saved output of max pooling: the position of each maximum. It is a position within the window (one byte if the window has
 * at most 256 elements), or within the whole input. */
int mp_extras_max_pool(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    mp_dtype dtype = MP_DTYPE_INT32;
    size_t n;
    const int64_t *kernel =
        mp_operator_ints(op, "kernel_shape", &n); /* NULL for global pooling, whose window is the whole input */
    if (rules == MP_RULES_PYTORCH)
        dtype = MP_DTYPE_INT64;
    else if (kernel && mp_product(kernel, 0, (int)n) <= 256)
        dtype = MP_DTYPE_UINT8;
    extras[0] = extra_of("indices", dtype, mp_tensor_elements(mp_operator_out(model, op, 0)));
    return 1;
}

int mp_extras_batch_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    (void)rules;
    const mp_tensor *x = mp_operator_in(model, op, 0), *scale = mp_operator_in(model, op, 1);
    return statistics(x, mp_tensor_elements(scale), 2, mean_and_invstd, extras);
}

/* Extras of a normalization fused with ReLU: the statistics, and one bit per output element, which is 1 if the element is
 * positive. */
int mp_extras_added_relu(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    const int n = mp_extras_batch_normalization(model, op, rules, extras);
    const int64_t elements = mp_tensor_elements(mp_operator_out(model, op, 0));
    extras[n] = extra_of("positive", MP_DTYPE_UINT8, elements / 8 + (elements % 8 != 0));
    return n + 1;
}

/* Returns the number of rows of x that a normalization treats separately: the product of the dimensions before the
 * normalized axes. */
static int64_t rows_of(const mp_operator *op, const mp_tensor *x)
{
    int64_t axis = mp_operator_int(op, "axis", -1);
    return mp_product(x->dims, 0, (int)(axis < 0 ? axis + x->rank : axis));
}

int mp_extras_layer_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    (void)rules;
    const mp_tensor *x = mp_operator_in(model, op, 0);
    return statistics(x, rows_of(op, x), 2, mean_and_rstd, extras);
}

int mp_extras_rms_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    (void)rules;
    const mp_tensor *x = mp_operator_in(model, op, 0);
    return statistics(x, rows_of(op, x), 1, &mean_and_rstd[1], extras);
}

/* The saved outputs of group and instance normalization of X (N, C, ...): one statistic per sample and group. In instance
 * normalization every channel is a group. */
int mp_extras_group_normalization(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    (void)rules;
    const mp_tensor *x = mp_operator_in(model, op, 0);
    int64_t n_channels = x->rank >= 2 ? x->dims[1] : 1;
    int64_t groups = strcmp(op->op->name, "InstanceNormalization") ? mp_operator_int(op, "num_groups", n_channels) : n_channels;
    return statistics(x, saturated(x->rank >= 1 ? x->dims[0] : 1, groups), 2, mean_and_rstd, extras);
}

/* In PyTorch, "scale" has the type of the input, because PyTorch computes it with tensors of that type. */
int mp_extras_lrn(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    const mp_tensor *x = mp_operator_in(model, op, 0);
    extras[0] = extra_of("scale", rules == MP_RULES_PYTORCH ? x->dtype : statistic_type(x), mp_tensor_elements(x));
    return 1;
}

/* Returns the padded length of a row, in floats, in oneDNN's LSTM workspace. It is a multiple of a cache line, but not of
 * 256. */
static int64_t padded(int64_t n)
{
    int64_t row;
    if (!mp_round_up(n, 16, &row)) return INT64_MAX;
    return row % 256 ? row : row + 16;
}

/* Returns the bytes of rows * columns floats, rounded up to whole pages. */
static int64_t pages(int64_t rows, int64_t columns)
{
    int64_t bytes;
    return mp_round_up(saturated(saturated(rows, columns), 4), 4096, &bytes) ? bytes : INT64_MAX;
}

static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    return mp_add(a, b, &sum) ? sum : INT64_MAX;
}

/* Returns the bytes that PyTorch 2 saves for a recurrent layer on the CPU. The input, and for an LSTM the output, are not
 * included. An LSTM uses oneDNN and saves oneDNN's workspace plus the first and last states. The workspace (layout of oneDNN
 * 2.x and 3.x) holds gates, states, and gradients of states of this layer and the layer below, with one row more than there
 * are steps. Without oneDNN a GRU saves seven vectors per step, an RNN its states. */
static int64_t kept_by_pytorch(const mp_operator *op, mp_recurrent r, int64_t element)
{
    const int64_t rows = saturated(r.n_steps, r.batch), more = saturated(saturated(r.n_steps + 1, r.batch), 2);
    const int64_t state = saturated(r.batch, r.hidden), widest = r.input > r.hidden ? r.input : r.hidden;
    if (op->op->max_out < 3) return saturated(saturated(r.gates == 3 ? saturated(rows, 7) : rows + r.batch, r.hidden), element);
    int64_t bytes = sum_of(pages(rows, padded(saturated(4, r.hidden))), pages(rows, padded(r.hidden)));
    bytes = sum_of(bytes, saturated(3, pages(more, padded(widest))));
    bytes = sum_of(bytes, saturated(2, pages(more, r.hidden)));
    return sum_of(bytes, saturated(saturated(4, state), element));
}

/* Extras of a recurrent layer under the executor's rules: the values that backward reads per step, sample and direction
 * (mp_reserve). */
int mp_extras_recurrent(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    const mp_recurrent r = mp_recurrent_read(model, op);
    const mp_reserve kept = mp_reserve_of(model, op);
    const int64_t vectors = kept.gates + kept.seconds + kept.states;
    const mp_dtype type = mp_operator_in(model, op, 0)->dtype;
    if (rules == MP_RULES_PYTORCH) {
        const int64_t bytes = kept_by_pytorch(op, r, mp_dtype_bits(type) / 8);
        extras[0] = (mp_extra){.name = "workspace", .dtype = type, .bytes = saturated(r.n_directions, bytes)};
        return 1;
    }
    if (!vectors) return 0;
    int64_t n = saturated(saturated(saturated(r.n_steps, r.batch), r.n_directions), saturated(vectors, r.hidden));
    extras[0] = extra_of("reserve", MP_DTYPE_FLOAT, n);
    return 1;
}

/* The saved outputs of attention. "lse" is the logarithm of the sum of exponentials of every row of scores. PyTorch also
 * saves a boolean mask, which each call converts to floats. */
int mp_extras_attention(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    const mp_tensor *q = mp_operator_in(model, op, 0), *mask = mp_operator_in(model, op, MP_ATTENTION_POSITIONS);
    mp_attention a = mp_attention_read(model, op);
    extras[0] = extra_of("lse", statistic_type(q), saturated(a.n_batch, a.rows));
    const int64_t n_converted = mask ? mp_tensor_elements(mask) : mp_operator_int(op, "converted", 0);
    if (rules != MP_RULES_PYTORCH || !n_converted) return 1;
    extras[1] = extra_of("mask", q->dtype, n_converted);
    return 2;
}

/* The saved output of x.max(dim) in PyTorch: the indices of the chosen elements. */
int mp_extras_indices(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    if (rules != MP_RULES_PYTORCH || op->saves != MP_SAVES_INDICES) return 0;
    extras[0] = extra_of("indices", MP_DTYPE_INT64, mp_tensor_elements(mp_operator_out(model, op, 0)));
    return 1;
}

/* The saved output of cross-entropy: per label, the logarithm of the sum of exponentials over the classes. PyTorch saves the
 * logarithms of all probabilities instead. */
int mp_extras_cross_entropy(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX])
{
    const mp_tensor *scores = mp_operator_in(model, op, 0), *labels = mp_operator_in(model, op, 1);
    extras[0] = rules == MP_RULES_PYTORCH ? extra_of("log_probabilities", statistic_type(scores), mp_tensor_elements(scores))
                                          : extra_of("lse", statistic_type(scores), mp_tensor_elements(labels));
    return 1;
}

/* FLOPs of products, from inferred shapes. A multiply-add is 2; bias additions are not counted. */

/* FLOPs of convolutions. An output element is a sum over C/group channels and the elements of the window. In a transposed
 * convolution, an input element contributes to M/group channels and the elements of the window. In both cases these are the
 * weight's dimensions after the first. */
double mp_flops_conv(const mp_model *model, const mp_operator *op)
{
    const bool transposed = op->op->traits & MP_TRAIT_TRANSPOSED;
    const mp_tensor *dense = transposed ? mp_operator_in(model, op, 0) : mp_operator_out(model, op, 0);
    const mp_tensor *weight = mp_operator_in(model, op, 1);
    return 2.0 * (double)mp_tensor_elements(dense) * (double)mp_product(weight->dims, 1, weight->rank);
}

double mp_flops_matmul(const mp_model *model, const mp_operator *op)
{
    return 2.0 * (double)mp_tensor_elements(mp_operator_out(model, op, 0)) * (double)mp_matmul_operand(model, op, 0).columns;
}

/* FLOPs of attention: the products of queries with keys, and of probabilities with values. Masked positions count too. */
double mp_flops_attention(const mp_model *model, const mp_operator *op)
{
    mp_attention a = mp_attention_read(model, op);
    return 2.0 * (double)a.n_batch * (double)a.rows * (double)a.columns * ((double)a.depth + (double)a.value_depth);
}

/* FLOPs of Einsum. Two operands are multiplied once for every combination of labels. A single operand is only summed,
 * without products. */
double mp_flops_einsum(const mp_model *model, const mp_operator *op)
{
    mp_einsum e;
    mp_infer c = {.model = (mp_model *)model,
                  .op = (mp_operator *)op,
                  .missing_value =
                      -1}; /* mp_einsum_read takes pointers to non-const, but does not modify the model and operator */
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
