/* liveness.h - what a graph's flags mean for how long its storages live: facts that searchers, proofs, pictures and the
 * executor ask for instead of reading the flags. The rules themselves are in memplan/timeline.h.
 */
#pragma once

#include "memplan/timeline.h"

/* True if what the storage holds outlives a training step: it is always live, or carried into the next step. A read of it needs
 * no production before it in the step; it is in memory at the end; and both lives of a carried gradient, the one from the step
 * before and the one that this step begins, have one place. Of any other storage every read comes after a production. */
static inline bool mp_storage_outlives_step(const mp_storage *storage)
{
    return storage->carried || mp_storage_is_static(storage);
}

/* True if a run of a node that may run again produces the storage anew, so that it need not stay for a later reader. */
static inline bool mp_storage_is_recomputable(const mp_graph *graph, int storage)
{
    const int producer = graph->producer[storage];
    return producer >= 0 && mp_node_may_rerun(&graph->nodes[producer]) && !mp_storage_outlives_step(&graph->storages[storage]);
}

/* Lets `to` outlive a training step in the place of `from`: the part of a gradient that is left of the whole. */
static inline void mp_storage_hand_over(mp_storage *from, mp_storage *to)
{
    to->carried = from->carried;
    to->persistent = from->persistent;
    from->carried = from->persistent = false;
}

/* From now on a plan may not compute the node more than once. */
static inline void mp_node_forbid_rerun(mp_node *node)
{
    node->flags |= MP_NODE_ONCE;
}

/* Copies the in-place pairs of an alternative into another graph, where storage s is number[s]; a pair of which one is not
 * there
 * (-1) is left out. MP_NOMEM. O(pairs). */
mp_status mp_in_place_copy(mp_graph *graph, const mp_alternative *from, const int *number, mp_alternative *to, mp_error *err);

/* Makes an empty graph that runs its updates where another one does, with that one's name, options, target, alignment, tick and
 * channels; its tiers are its own. As mp_graph_new. O(channels). */
mp_status mp_graph_like(const mp_graph *of, mp_graph **out, mp_error *err);

/* As mp_graph_channel, but a name that is there is found. */
mp_status mp_graph_channel_named(mp_graph *graph, const char *name, int *number, mp_error *err);

/* ---- issued steps ---- */

/* True if the step runs beside those that come before the one that waits for it. */
static inline bool mp_step_is_issued(mp_step step)
{
    return step.until != 0;
}

/* Issues steps [first, end), and step `until` waits for them; 0: they run in order. */
static inline void mp_steps_issue(mp_step *steps, int first, int end, int until)
{
    for (int t = first; t < end; t++) steps[t].until = until;
}

/* ---- state in another tier ---- */

/* Writes the steps that copy an update's state in, or out again, and returns how many there are; an update that copies has
 * none. O(lists). */
size_t mp_state_copies_of(const mp_graph *graph, int update, bool is_in, mp_step *steps);
/* Returns the storage in which an update leaves the state that was copied into s; s itself if that is no state that has come.
 * O(pairs). */
int mp_state_updated(const mp_graph *graph, int s);
/* Returns the storage in which the state lies that is in s on the device; s itself if that is no copy of state. O(readers). */
int mp_state_home(const mp_graph *graph, int s);

/* ---- in-place pairs ----
 *
 * Of the pairs of a step whose `from` ends there and whose `to` begins there, the first listed ones that fit are taken, each
 * input and each output at most once. */

/* True if `to` has room in the memory of `from`, and neither is always live. */
static inline bool mp_pair_fits(const mp_graph *graph, mp_in_place pair)
{
    const mp_storage *from = &graph->storages[pair.from], *to = &graph->storages[pair.to];
    return from->bytes >= to->bytes && !mp_storage_is_static(from) && !mp_storage_is_static(to);
}

/* True if an alternative that lists no pairs of its own has this one of its base: it reads `from`, and makes `to`. O(lists). */
bool mp_pair_is_inherited(const mp_alternative *alternative, mp_in_place pair);

/* Finds the next listed pair of an alternative that fits; false: there is none. *at is 0 at first. Inline as mp_pair_take. */
static inline bool mp_pair_next(const mp_graph *graph, const mp_alternative *alternative, size_t *at, mp_in_place *pair)
{
    while (*at < alternative->n_in_place) {
        *pair = alternative->in_place[(*at)++];
        if (mp_pair_fits(graph, *pair)) return true;
    }
    return false;
}

/* Takes a pair, unless one that was taken in the same `round` (not 0; of a step, say) has its input or output. Call for the
 * pairs that apply, as they are listed. used[s] is the last round in which storage s was used. Inline: searchers ask it often.
 */
static inline bool mp_pair_take(mp_in_place pair, int round, int *used)
{
    if (used[pair.from] == round || used[pair.to] == round) return false;
    used[pair.from] = used[pair.to] = round;
    return true;
}

/* The most bytes that the pairs of a step can save: if each output counts once, and if each input does. */
typedef struct mp_pairs_most {
    int64_t outputs_bytes, inputs_bytes;
} mp_pairs_most;

/* Adds up over the pairs that fit and that may apply (asked with `data`). `best` is zero per storage, before and after.
 * O(pairs). */
mp_pairs_most mp_pairs_save_at_most(const mp_graph *graph, const mp_alternative *alternative,
                                    bool (*may_apply)(const void *data, mp_in_place pair), const void *data, int64_t *best);
