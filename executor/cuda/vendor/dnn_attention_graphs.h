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

/* The indices of the graph's tensors that have memory; -1: the graph has no such tensor. */
typedef struct mp_dnn_attention {
    int q, k, v, y, statistics;
    int added;             /* additive mask */
    int scale, hidden;     /* passed by value: the factor; what replaces scores above the diagonal (-inf) */
    int seed, offset;      /* of dropout, an int64 each */
    int kept, growth;      /* passed by value: the share that dropout keeps (backward; without dropout 1), and c, its inverse */
    int dy, dq, dk, dv;    /* backward only, as are those below */
    int row_sums, dq_sums; /* scratch: D, float [B, H, rows, 1]; dQ in float, contiguous, if it is accumulated in memory */
} mp_dnn_attention;

/* Returns the reason why cuDNN's engines cannot compute this attention, for reports; NULL: they may be asked. They need
 * bfloat16 everywhere; depths that are innermost and multiples of 8 up to 128; rows whose stride is a multiple of 16 bytes;
 * at most two batch dimensions; masks that hide what they replace, which are made additive (attention_spec.h) before a graph
 * is built; and a version of cuDNN (as cudnnGetVersion returns it) without known errors there. */
const char *mp_dnn_attention_refusal(const mp_attention_spec *form, size_t version);
void mp_dnn_attention_forward(const mp_attention_spec *form, mp_dnn_graph *g, mp_dnn_attention *at);
/* Builds the graph of backward. adds_up: use the engines in which blocks of columns accumulate into dQ in any order; else dS
 * is in the engine's workspace, B x H x rows x columns in bfloat16, and the result has the same bits in every run. */
void mp_dnn_attention_backward(const mp_attention_spec *form, bool adds_up, mp_dnn_graph *g, mp_dnn_attention *at);
