/* summary.h - the totals of a training graph, and what each operator adds to them: the answer to "how much, and where from".
 *
 *     mp_summary summary;
 *     MP_CHECK(mp_summarize(graph, MP_RULES_EXECUTOR, &summary, err));
 *     printf("%lld bytes of parameters\n", (long long)summary.kind_bytes[MP_KIND_PARAMETER]);
 *     mp_summary_free(&summary);
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/model.h"

/* One operator: a forward or loss node, and for a forward node the backward nodes that belong to it (forward_of). */
typedef struct mp_operator_summary {
    int node;
    double flops; /* of one forward run */
    int64_t forward_ticks, backward_ticks;
    int64_t output_bytes;    /* payload of all not always-live storages that it writes */
    int64_t saved_bytes;     /* of output_bytes, what some backward node reads */
    int64_t workspace_bytes; /* the largest workspace of its nodes */
    /* live bytes of keep-all, as allocated, with static bytes: before and after the forward run, before the first and
     * after the last of its backward nodes (-1: it has none) */
    int64_t live_before_bytes, live_after_bytes, backward_live_before_bytes, backward_live_after_bytes;
} mp_operator_summary;

/* All bytes but workspace and live bytes are payload: before rounding to the target's alignment. */
typedef struct mp_summary {
    int64_t kind_bytes[MP_N_KINDS];
    int64_t saved_activation_bytes; /* bytes live at the end of forward: what forward nodes produced and some backward
                                     * node reads; under PyTorch's rules also `input` storages that backward reads */
    int64_t workspace_bytes;        /* the largest workspace of any node */
    double forward_flops;
    int64_t forward_ticks, backward_ticks, update_ticks; /* the loss counts as forward */
    size_t n_operators;
    mp_operator_summary *operators; /* in node order */
} mp_summary;

/* Computes the summary; on MP_OK release it with mp_summary_free. MP_NOMEM. O(list lengths). */
mp_status mp_summarize(const mp_graph *graph, mp_rules rules, mp_summary *out, mp_error *err);
void mp_summary_free(mp_summary *summary); /* frees what it points to; zeroed is fine */
