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
    int64_t output_bytes;    /* payload of the storages that the operator writes, except static storages */
    int64_t saved_bytes;     /* part of output_bytes that backward nodes of any operator read */
    int64_t workspace_bytes; /* the largest workspace of the operator's nodes */
    int64_t parameter_bytes; /* bytes of the parameters that the operator reads. If several operators read a parameter, it
                                counts for the first of them in node order */
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

/* Computes the summary of a graph. On MP_OK release *out with mp_summary_free. MP_NOMEM. O(reads, writes and adds of all
 * nodes). */
mp_status mp_summarize(const mp_graph *graph, mp_rules rules, mp_summary *out, mp_error *err);
void mp_summary_free(mp_summary *summary); /* releases the members of a summary; a zeroed struct is allowed */

/* The columns by which operators and modules are sorted: largest first, or by name. NETWORK: the order of the network. */
typedef enum mp_summary_column {
    MP_SUMMARY_KEPT,
    MP_SUMMARY_PARAMETERS,
    MP_SUMMARY_TIME,
    MP_SUMMARY_NAME,
    MP_SUMMARY_NETWORK
} mp_summary_column;
const char *mp_summary_column_name(mp_summary_column column); /* returns "kept", "parameters", ... */
int mp_summary_column_find(const char *name);                 /* returns -1 if no column has this name */

/* Copies the operators of a summary to *out, sorted by the column. On MP_OK release *out with mp_free. MP_NOMEM. O(n log n). */
mp_status mp_summary_sorted(const mp_graph *graph, const mp_summary *summary, mp_summary_column column,
                            mp_operator_summary **out, mp_error *err);

/* The operators of a module, added up; or those of successive equal modules, such as "h.0" to "h.11", with the values of each.
 */
typedef struct mp_module_summary {
    const char *name; /* name of the module's first operator; its first `length` bytes are the name of the module */
    size_t length;    /* 0: the operators belong to no module */
    size_t n_repeats; /* number of following equal modules that are merged into this row; `last` is the name of the last one */
    const char *last;
    size_t last_length;
    size_t n_others; /* number of modules that are added up in a row of others; otherwise 1 */
    int64_t saved_bytes, parameter_bytes, ticks;
    int64_t rank; /* number by which the rows are sorted, largest first */
} mp_module_summary;

/* Adds up the operators per module. `most` > 1: in at most `most` rows, at the greatest nesting depth for which they suffice.
 * If there are more outermost modules, the last row contains the sum of the smallest ones (by kept bytes in the order of the
 * network). `most` 0: each outermost module has a row of its own. Names are those of the graph, which must outlive *out. On
 * MP_OK release *out with mp_free. MP_NOMEM. O(operators * modules). */
mp_status mp_summary_modules(const mp_graph *graph, const mp_summary *summary, size_t most, mp_summary_column column,
                             mp_module_summary **out, size_t *n, mp_error *err);
/* Writes the title of a row: "h.3", "h.0 - h.11, each", "5 others" or "(no module)". Truncated to `size` bytes. Returns text.
 */
char *mp_module_summary_title(const mp_module_summary *module, char *text, size_t size);
