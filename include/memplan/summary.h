/* summary.h - memory and time totals of a training graph, and the contribution of each operator.
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     mp_summary summary;
 *     MP_CHECK(mp_summarize(graph, MP_RULES_EXECUTOR, &summary, err));
 *     printf("%lld bytes of parameters\n", (long long)summary.kind_bytes[MP_KIND_PARAMETER]);
 *     mp_summary_free(&summary);
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/model.h"

/* The contribution of one operator: of a forward node and its backward nodes (forward_of), or of a loss node. */
typedef struct mp_operator_summary {
    int node;
    double flops; /* of one forward run */
    int64_t forward_ticks, backward_ticks;
    int64_t output_bytes;    /* payload of the storages that the operator writes, except always-live storages */
    int64_t saved_bytes;     /* part of output_bytes that backward nodes of any operator read */
    int64_t workspace_bytes; /* the largest workspace of the operator's nodes */
    /* Live bytes of keep-all as allocated, static bytes included. They are given before and after the forward run, and
     * before the first and after the last backward node of the operator (-1: no backward nodes). */
    int64_t live_before_bytes, live_after_bytes, backward_live_before_bytes, backward_live_after_bytes;
} mp_operator_summary;

/* Totals of a training graph. Byte counts are payload, before rounding to the target's alignment. Workspaces and live bytes
 * are as allocated. */
typedef struct mp_summary {
    int64_t kind_bytes[MP_N_KINDS];
    int64_t saved_activation_bytes; /* bytes live at the end of forward: storages that forward nodes produce and backward nodes
                                       read. Under PyTorch's rules also storages of kind `input` that backward reads */
    int64_t workspace_bytes;        /* the largest workspace of any node of the graph */
    double forward_flops;
    int64_t forward_ticks, backward_ticks, update_ticks; /* ticks of the nodes of each phase; loss nodes count as forward */
    size_t n_operators;
    mp_operator_summary *operators; /* in node order */
} mp_summary;

/* Computes the summary of a graph. On MP_OK release *out with mp_summary_free. MP_NOMEM. O(list lengths). */
mp_status mp_summarize(const mp_graph *graph, mp_rules rules, mp_summary *out, mp_error *err);
void mp_summary_free(mp_summary *summary); /* releases the members of a summary; a zeroed struct is allowed */
