/* dnn_attention_graphs.h - forward and backward of attention as cuDNN operation graphs. Private to executor/cuda/.
 *
 * The graphs consist of matrix products, pointwise operations and reductions in the pattern that cuDNN's engines for fused
 * attention recognise (cuDNN's documentation, "Fused Flash Attention fprop" and "bprop"). There are B batches, H heads, `rows`
 * of Q and `columns` of scores:
 *
 *     S = scale Q K^T (+ the additive mask, and -inf above the diagonal);  L = max S + ln(sum(e^(S - max S)));  P = softmax(S)
 *     Y = c R * P V;  R = 1 with probability 1 / c, else 0, drawn from a seed and an offset in memory
 *     D = rowsum(dY * Y) / c;  P = e^(S - L);  dV = (c R * P)^T dY
 *     dS = c scale P * (R * dY V^T - D);  dK = dS^T Q;  dQ = dS K
 *
 * Without dropout, R and c are 1 and are not part of the graph. Operations are in the order of cudnn-frontend, which the
 * engines recognise.
 *
 * The statistics L are the logarithms of the sums of the exponentials of the scaled scores, one per row of Q: float [B, H,
 * rows, 1], without gaps. They are the extra output "lse", which memplan's own kernels also write and read. */
#pragma once

#include "executor/cuda/vendor/dnn_graph.h"
#include "executor/operators/attention/attention_spec.h"

/* Indices in the graph of the tensors that have memory or a value; -1: the graph does not contain the tensor. */
typedef struct mp_dnn_attention {
    int q, k, v, y, statistics;
    int added; /* additive mask; -1: none */
    /* numbers passed by value. scale: the factor of the scores; hidden: -inf, the replacement for scores above the diagonal */
    int scale, hidden;
    int seed, offset; /* seed and offset of dropout's random numbers, one int64 each */
    /* numbers passed by value. kept: probability that dropout keeps an element (backward only; 1 without dropout); growth:
     * its inverse, c */
    int kept, growth;
    int dy, dq, dk, dv; /* gradients; these and the following members exist in graphs of backward only */
    /* scratch tensors. row_sums: D (row sums of dY * Y), float [B, H, rows, 1]; dq_sums: dQ in float, contiguous, if dQ is
     * accumulated in memory */
    int row_sums, dq_sums;
} mp_dnn_attention;

/* For reports: returns the reason why cuDNN's engines cannot compute this attention; NULL: they may support it. Requirements:
 *
 *   - bfloat16 for all operands
 *   - the depth is the innermost dimension and a multiple of 8 up to 128
 *   - the stride of rows is a multiple of 16 bytes
 *   - at most two batch dimensions
 *   - masks set the replaced scores to -inf; they are made additive (attention_spec.h) before a graph is built
 *   - a version of cuDNN (from cudnnGetVersion) without known errors */
const char *mp_dnn_attention_refusal(const mp_attention_spec *form, size_t version);
void mp_dnn_attention_forward(const mp_attention_spec *form, mp_dnn_graph *g, mp_dnn_attention *at);
/* Builds the graph of backward. With adds_up, uses engines that accumulate into dQ in any order, so the last bits may differ
 * from run to run. Without adds_up, the engine stores dS in its workspace (B x H x rows x columns in bfloat16), and results
 * are bit-identical in every run. */
void mp_dnn_attention_backward(const mp_attention_spec *form, bool adds_up, mp_dnn_graph *g, mp_dnn_attention *at);
