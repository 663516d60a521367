/* liveness.h - lifetime properties of storages, derived from the graph's flags. Searchers, proofs, pictures and the executor
 * call these functions instead of reading the flags. memplan/timeline.h states the rules of lifetimes. */
#pragma once

#include "memplan/timeline.h"

/* True if the content of a storage outlives a training step: the storage is static, or carried into the next step. Such
 * a storage can be read without a production in the same step, and it is live at the end. A carried gradient has two
 * instances: one from the previous training step, one for the next. Both use the same memory. Every other storage is
 * produced before each read. */
static inline bool mp_storage_outlives_step(const mp_storage *storage)
{
    return storage->carried || mp_storage_is_static(storage);
}

/* True if a rerun of the producer restores the storage, so that the storage need not stay live for a later reader. */
static inline bool mp_storage_is_recomputable(const mp_graph *graph, int storage)
{
    const int producer = graph->producer[storage];
    return producer >= 0 && mp_node_may_rerun(&graph->nodes[producer]) && !mp_storage_outlives_step(&graph->storages[storage]);
}

/* Sets the flags of `to` so that it outlives a training step as `from` did, and clears the flags of `from`. Example: from a
 * gradient to its shard. */
static inline void mp_storage_hand_over(mp_storage *from, mp_storage *to)
{
    to->carried = from->carried;
    to->persistent = from->persistent;
    from->carried = from->persistent = false;
}

/* Sets the flag that forbids plans to recompute the node. */
static inline void mp_node_forbid_rerun(mp_node *node)
{
    node->flags |= MP_NODE_ONCE;
}

/* Copies the in-place pairs of an alternative into another graph, where storage s has index number[s]. If a storage of a
 * pair does not exist there (number -1), the pair is omitted. MP_NOMEM. O(pairs). */
mp_status mp_in_place_copy(mp_graph *graph, const mp_alternative *from, const int *number, mp_alternative *to, mp_error *err);

/* Creates an empty graph with the fuse mode, name, options, target, alignment, tick and channels of another graph, but not its
 * tiers. Errors as mp_graph_new. O(channels). */
mp_status mp_graph_like(const mp_graph *of, mp_graph **out, mp_error *err);

/* Returns in *number the channel of this name. If there is none, adds it like mp_graph_channel. */
mp_status mp_graph_channel_named(mp_graph *graph, const char *name, int *number, mp_error *err);

/* ---- issued steps ---- */

/* True if the step is issued: it runs concurrently with the steps before `until`. */
static inline bool mp_step_is_issued(mp_step step)
{
    return step.until != 0;
}

/* Issues the steps [first, end), so that step `until` waits for them. until 0: these steps run in order. */
static inline void mp_steps_issue(mp_step *steps, int first, int end, int until)
{
    for (int t = first; t < end; t++) steps[t].until = until;
}

/* ---- optimizer state that is stored in another tier ---- */

/* Writes the steps that copy the state of an update in (is_in) or out. Returns their number. If the update is itself a copy,
 * the number is 0. O(lists). */
size_t mp_state_copies_of(const mp_graph *graph, int update, bool is_in, mp_step *steps);
/* Returns the storage into which an update writes the new value of state s, if s is a copy of state on the device. For any
 * other s, returns s. O(pairs). */
int mp_state_updated(const mp_graph *graph, int s);
/* Returns the storage in another tier of which s is the copy on the device. For any other s, returns s. O(readers). */
int mp_state_home(const mp_graph *graph, int s);

/* ---- in-place pairs ----
 *
 * A pair applies in a step if the instance of `from` ends in this step and the instance of `to` begins in it. Pairs that fit
 * are used in list order. Each input and each output is used at most once per step. */

/* True if `to` fits into the memory of `from`, and neither storage is static. */
static inline bool mp_pair_fits(const mp_graph *graph, mp_in_place pair)
{
    const mp_storage *from = &graph->storages[pair.from], *to = &graph->storages[pair.to];
    return from->bytes >= to->bytes && !mp_storage_is_static(from) && !mp_storage_is_static(to);
}

/* True if an alternative that states no pairs inherits this pair from the base alternative, because it also reads `from` and
 * produces `to`. O(lists). */
bool mp_pair_is_inherited(const mp_alternative *alternative, mp_in_place pair);

/* Finds the next in-place pair of an alternative that can be applied in the step. Returns false if no further pair can. *at
 * must be 0 before the first call. Inline, because searchers call it often. */
static inline bool mp_pair_next(const mp_graph *graph, const mp_alternative *alternative, size_t *at, mp_in_place *pair)
{
    while (*at < alternative->n_in_place) {
        *pair = alternative->in_place[(*at)++];
        if (mp_pair_fits(graph, *pair)) return true;
    }
    return false;
}

/* Returns true if the in-place pair may be used, because no pair with the same input or output was used in this `round`. A
 * round is identified by a nonzero number, for example the number of the step. Call this function in list order for the pairs
 * that apply. used[s] is the last round in which storage s was used. Inline, because searchers call it often. */
static inline bool mp_pair_take(mp_in_place pair, int round, int *used)
{
    if (used[pair.from] == round || used[pair.to] == round) return false;
    used[pair.from] = used[pair.to] = round;
    return true;
}

/* Two upper bounds on the bytes that the in-place pairs of a step can save: one with each output in at most one pair, the other
 * with each input in at most one pair. */
typedef struct mp_pairs_most {
    int64_t outputs_bytes, inputs_bytes;
} mp_pairs_most;

/* Computes the upper bounds over all pairs that fit and for which may_apply(data, pair) is true. `best` is scratch space
 * with one zero per storage; it is zero again afterwards. O(pairs). */
mp_pairs_most mp_pairs_save_at_most(const mp_graph *graph, const mp_alternative *alternative,
                                    bool (*may_apply)(const void *data, mp_in_place pair), const void *data, int64_t *best);
