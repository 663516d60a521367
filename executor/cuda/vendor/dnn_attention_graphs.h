/* dnn_attention_graphs.h - attention as operation graphs of cuDNN's, forward and backward. Private to executor/cuda/.
 *
 * The graphs are those of matrix products, pointwise operations and reductions that cuDNN's engines for fused attention
 * recognise (cuDNN's documentation, "Fused Flash Attention fprop" and "bprop"), with B batches, H heads, `rows` of Q and
 * `columns` of scores:
 *
 *     S = scale Q K^T (+ added, and -inf above the diagonal);  L = max S + ln(sum(e^(S - max S)));  P = softmax(S)
 *     Y = c R * P V;  R = 1 with probability 1 / c, else 0, drawn from a seed and an offset in memory
 *     D = rowsum(dY * Y) / c;  P = e^(S - L);  dV = (c R * P)^T dY;  dS = c scale P * (R * dY V^T - D);  dK = dS^T Q;  dQ = dS
 * K
 *
 * where without dropout R and c are 1, and not there. The order of operations is that of cudnn-frontend, which the engines
 * know.
 *
 * The statistics L are natural logarithms of scores that have been scaled, float [B, H, rows, 1], packed: the extra "lse" that
 * own kernels write and read too.
 */
#pragma once

#include "executor/cuda/vendor/dnn_graph.h"
#include "executor/operators/attention/attention_spec.h"

/* Which tensors of a graph have memory: their indices, -1 where it has none. */
typedef struct mp_dnn_attention {
    int q, k, v, y, statistics;
    int added;             /* what is added to the scores */
    int scale, hidden;     /* by value: the factor; what replaces scores above the diagonal (-inf) */
    int seed, offset;      /* of dropout: an int64 each */
    int kept, growth;      /* by value: the share that dropout keeps (backward; without dropout 1), and c, its inverse */
    int dy, dq, dk, dv;    /* backward only, as all below */
    int row_sums, dq_sums; /* scratch: D, float [B, H, rows, 1]; dQ in float, packed, where its parts are added up in memory */
} mp_dnn_attention;

/* Why cuDNN's engines cannot do it, for people; NULL: they may be asked. They want everything in bfloat16, depths that are
 * multiples of 8 up to 128 and innermost, rows 16 bytes apart or a multiple of that, two batch dimensions at most; masks that
 * hide what they replace, which are added (attention_spec.h) before a graph is made; and a cuDNN (its version as
 * cudnnGetVersion has it) without known errors there. */
const char *mp_dnn_attention_refusal(const mp_attention_spec *form, size_t version);
void mp_dnn_attention_forward(const mp_attention_spec *form, mp_dnn_graph *g, mp_dnn_attention *at);
/* adds_up: by the engines that let blocks of columns add to dQ in any order; else dS lies in the engine's workspace, B x H x
 * rows x columns in bfloat16, and the result has the same bits in every run. */
void mp_dnn_attention_backward(const mp_attention_spec *form, bool adds_up, mp_dnn_graph *g, mp_dnn_attention *at);
