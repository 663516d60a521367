/* corruptions.c - plans with faults in their steps, claims and numbers. */
#include "tests/oracles/corruptions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memplan/floor.h"

void drop_claims(mp_plan *plan)
{
    mp_free(plan->recompute);
    mp_free(plan->frees_start);
    mp_free(plan->frees);
    plan->recompute = NULL;
    plan->frees_start = plan->frees = NULL;
    plan->n_places = 0;
    plan->arena_bytes = -1;
    plan->budget_bytes = MP_NO_LIMIT;
}

static void remove_step(mp_plan *plan, size_t t)
{
    drop_claims(plan);
    memmove(plan->steps + t, plan->steps + t + 1, (--plan->n_steps - t) * sizeof *plan->steps);
}

static bool insert_step(mp_plan *plan, size_t t, mp_step step)
{
    mp_step *longer = mp_alloc(plan->n_steps + 1, sizeof *longer);
    drop_claims(plan);
    memcpy(longer, plan->steps, t * sizeof *longer);
    longer[t] = step;
    memcpy(longer + t + 1, plan->steps + t, (plan->n_steps++ - t) * sizeof *longer);
    mp_free(plan->steps);
    plan->steps = longer;
    return longer != NULL;
}

static bool move_step(mp_plan *plan, size_t from, size_t to)
{
    mp_step step = plan->steps[from];
    remove_step(plan, from);
    return insert_step(plan, to, step);
}

static size_t runs(const mp_plan *plan, int node)
{
    size_t n = 0;
    for (size_t t = 0; t < plan->n_steps; t++) n += plan->steps[t].node == node;
    return n;
}

/* Returns a step at or after a random one (wrapping around) whose node has the phase and all (none) of the flags; -1: none. */
static int find_step(const mp_graph *graph, const mp_plan *plan, random_source *random, mp_phase phase, unsigned flags)
{
    size_t from = (size_t)random_below(random, (int)plan->n_steps);
    for (size_t i = 0; i < plan->n_steps; i++) {
        size_t t = (from + i) % plan->n_steps;
        const mp_node *node = &graph->nodes[plan->steps[t].node];
        if (node->phase == phase && (node->flags & flags) == flags) return (int)t;
    }
    return -1;
}

static int step_of(const mp_plan *plan, int node)
{
    for (size_t t = 0; t < plan->n_steps; t++)
        if (plan->steps[t].node == node) return (int)t;
    return -1;
}

/* Returns the step that first writes a storage, or adds its last contribution; -1: none. */
static int complete_at(const mp_graph *graph, const mp_plan *plan, int storage)
{
    int last = graph->producer[storage] < 0 ? -1 : step_of(plan, graph->producer[storage]);
    for (int a = graph->adders_start[storage]; a < graph->adders_start[storage + 1]; a++)
        if (step_of(plan, graph->adders[a]) > last) last = step_of(plan, graph->adders[a]);
    return last;
}

SPOIL(drop_forward_node)
{
    int t = find_step(graph, plan, random, MP_PHASE_FORWARD, 0), node = t < 0 ? -1 : plan->steps[t].node;
    for (size_t u = plan->n_steps; t >= 0 && u-- > 0;)
        if (plan->steps[u].node == node) remove_step(plan, u);
    return t >= 0;
}
SPOIL(drop_backward_node)
{
    int t = find_step(graph, plan, random, MP_PHASE_BACKWARD, 0);
    if (t >= 0) remove_step(plan, (size_t)t);
    return t >= 0;
}
SPOIL(drop_update)
{
    int t = find_step(graph, plan, random, MP_PHASE_UPDATE, 0);
    if (t >= 0) remove_step(plan, (size_t)t);
    return t >= 0;
}
SPOIL(double_backward_node)
{
    int t = find_step(graph, plan, random, MP_PHASE_BACKWARD, 0);
    return t >= 0 && insert_step(plan, (size_t)t, plan->steps[t]);
}
SPOIL(double_loss)
{
    int t = find_step(graph, plan, random, MP_PHASE_LOSS, 0);
    return t >= 0 && insert_step(plan, (size_t)t, plan->steps[t]);
}
SPOIL(double_update)
{
    int t = find_step(graph, plan, random, MP_PHASE_UPDATE, 0);
    return t >= 0 && insert_step(plan, plan->n_steps, plan->steps[t]);
}
SPOIL(double_once_node)
{
    int t = find_step(graph, plan, random, MP_PHASE_FORWARD, MP_NODE_ONCE);
    return t >= 0 && insert_step(plan, (size_t)t + 1, plan->steps[t]);
}
SPOIL(recompute_at_the_end)
{
    int t = find_step(graph, plan, random, MP_PHASE_FORWARD, 0);
    if (t < 0 || (graph->nodes[plan->steps[t].node].flags & MP_NODE_ONCE)) return false;
    if (!graph->nodes[plan->steps[t].node].alternatives[0].ticks || graph->fuse != MP_FUSE_FORWARD) return false;
    return insert_step(plan, plan->n_steps, (mp_step){.node = plan->steps[t].node});
}
SPOIL(read_before_produced)
{
    for (size_t i = 0; i < plan->n_steps; i++) {
        size_t t = (i + (size_t)random_below(random, 5)) % plan->n_steps;
        const mp_alternative *alternative = &graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative];
        for (size_t k = 0; k < alternative->n_reads; k++) {
            int s = alternative->reads[k], p = graph->producer[s];
            if (p < 0 || mp_storage_is_static(&graph->storages[s]) || graph->storages[s].carried) continue;
            if (runs(plan, plan->steps[t].node) > 1) continue;
            return move_step(plan, t, (size_t)step_of(plan, p));
        }
    }
    return false;
}
SPOIL(read_incomplete_sum)
{
    (void)random;
    for (size_t s = 0; s < graph->n_storages; s++) {
        int first = graph->adders_start[s], end = graph->adders_start[s + 1];
        const mp_storage *storage = &graph->storages[s];
        if (end - first < 2 || mp_storage_is_static(storage) || storage->carried) continue;
        if (graph->readers_start[s] == graph->readers_start[s + 1]) continue;
        int reader = graph->readers[graph->readers_start[s]], last = -1;
        if (graph->nodes[reader].phase != MP_PHASE_BACKWARD) continue;
        for (int a = first; a < end; a++) {
            int t = step_of(plan, graph->adders[a]);
            if (t > last) last = t;
        }
        return move_step(plan, (size_t)step_of(plan, reader), (size_t)last);
    }
    return false;
}
SPOIL(add_out_of_order)
{
    (void)random;
    for (size_t s = 0; s < graph->n_storages; s++) {
        int first = graph->adders_start[s];
        if (graph->adders_start[s + 1] - first < 2 || graph->storages[s].any_sum_order) continue;
        /* after a swap, both nodes must still find their operands */
        const mp_alternative *second = &graph->nodes[graph->adders[first + 1]].alternatives[0];
        for (size_t k = 0; k < second->n_reads; k++) {
            if (complete_at(graph, plan, second->reads[k]) >= step_of(plan, graph->adders[first])) return false;
        }
        return move_step(plan, (size_t)step_of(plan, graph->adders[first + 1]), (size_t)step_of(plan, graph->adders[first]));
    }
    return false;
}
SPOIL(update_too_early)
{
    if (graph->fuse != MP_FUSE_NONE) return false;
    int t = find_step(graph, plan, random, MP_PHASE_UPDATE, 0), last = -1;
    for (size_t u = 0; u < plan->n_steps; u++)
        if (graph->nodes[plan->steps[u].node].phase == MP_PHASE_BACKWARD) last = (int)u;
    return t >= 0 && last >= 0 && move_step(plan, (size_t)t, (size_t)last);
}
/* Returns the last (first) step, except updates, that reads a storage written by the update at t; -1: none. */
static int reader_of_parameter(const mp_graph *graph, const mp_plan *plan, int t, bool last)
{
    const mp_alternative *update = &graph->nodes[plan->steps[t].node].alternatives[0];
    int found = -1;
    for (int u = 0; u < (int)plan->n_steps; u++) {
        const mp_node *node = &graph->nodes[plan->steps[u].node];
        for (size_t k = 0; k < node->alternatives[0].n_reads; k++)
            if (node->phase != MP_PHASE_UPDATE && node->alternatives[0].reads[k] == update->writes[0] && (last || found < 0))
                found = u;
    }
    return found;
}
SPOIL(update_before_its_readers)
{
    int t = find_step(graph, plan, random, MP_PHASE_UPDATE, 0);
    if (t < 0 || graph->fuse != MP_FUSE_BACKWARD) return false;
    int reader = reader_of_parameter(graph, plan, t, true);
    return reader >= 0 && reader < t && move_step(plan, (size_t)t, (size_t)reader);
}
SPOIL(update_after_its_readers)
{
    int t = find_step(graph, plan, random, MP_PHASE_UPDATE, 0);
    if (t < 0 || graph->fuse != MP_FUSE_FORWARD) return false;
    int reader = reader_of_parameter(graph, plan, t, false);
    return reader > t && move_step(plan, (size_t)t, (size_t)reader);
}
/* Moves an update to the step that writes its persistent gradient. All readers of the parameter have run by then. */
SPOIL(update_before_its_gradient)
{
    (void)random;
    for (int t = 0; t < (int)plan->n_steps && graph->fuse == MP_FUSE_BACKWARD; t++) {
        const mp_node *node = &graph->nodes[plan->steps[t].node];
        const int s = node->phase == MP_PHASE_UPDATE ? node->alternatives[0].reads[0] : -1;
        if (s < 0 || !graph->storages[s].persistent || graph->writer[s] < 0) continue;
        const int written = step_of(plan, graph->writer[s]);
        if (reader_of_parameter(graph, plan, t, true) < written) return move_step(plan, (size_t)t, (size_t)written);
    }
    return false;
}
SPOIL(unknown_alternative)
{
    int t = random_below(random, (int)plan->n_steps);
    plan->steps[t].alternative = (int)graph->nodes[plan->steps[t].node].n_alternatives;
    return true;
}
SPOIL(other_alternative)
{
    (void)random;
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_node *node = &graph->nodes[plan->steps[t].node];
        int other = plan->steps[t].alternative ? 0 : 1;
        if (node->n_alternatives < 2 || node->alternatives[0].n_writes != node->alternatives[1].n_writes) continue;
        if (node->alternatives[0].n_reads != node->alternatives[1].n_reads ||
            node->alternatives[0].ticks == node->alternatives[1].ticks)
            continue;
        if (plan->steps[t].alternative > 1 || plan->seconds == 0) continue;
        plan->steps[t].alternative = other;
        drop_claims(plan);
        return true;
    }
    return false;
}
SPOIL(wrong_recompute_flag)
{
    int t = random_below(random, (int)plan->n_steps);
    (void)graph;
    plan->recompute[t] = !plan->recompute[t];
    return true;
}
SPOIL(missing_free)
{
    UNUSED;
    int n = plan->frees_start[plan->n_steps];
    for (size_t t = 0; n && t <= plan->n_steps; t++)
        if (plan->frees_start[t] == n) plan->frees_start[t]--;
    return n > 0;
}
SPOIL(free_of_another)
{
    int n = plan->frees_start[plan->n_steps];
    if (n) plan->frees[random_below(random, n)] = 0; /* the network's input, always live */
    (void)graph;
    return n > 0;
}
SPOIL(free_too_early)
{
    UNUSED;
    for (size_t t = 1; t < plan->n_steps; t++) {
        if (plan->frees_start[t] == plan->frees_start[t + 1]) continue;
        plan->frees_start[t]++;
        return true;
    }
    return false;
}
SPOIL(peak_too_low)
{
    return UNUSED, plan->peak_bytes--, true;
}
SPOIL(peak_too_high)
{
    return UNUSED, plan->peak_bytes++, true;
}
SPOIL(peak_not_stated)
{
    return UNUSED, plan->peak_bytes = -1, true;
}
SPOIL(static_wrong)
{
    return UNUSED, plan->static_bytes++, true;
}
SPOIL(seconds_wrong)
{
    return UNUSED, plan->seconds *= 1 + 1e-6, plan->seconds > 0;
}
SPOIL(seconds_not_stated)
{
    return UNUSED, plan->seconds = -1, true;
}
SPOIL(hash_of_another_graph)
{
    UNUSED;
    plan->graph_hash[7] = plan->graph_hash[7] == '0' ? '1' : '0';
    return true;
}
SPOIL(checkpoint_that_is_none)
{
    UNUSED;
    if (plan->n_checkpoints) plan->checkpoints[0] = 0;
    return plan->n_checkpoints > 0;
}
SPOIL(checkpoint_missing)
{
    return UNUSED, plan->n_checkpoints > 1 && plan->n_checkpoints--;
}
SPOIL(baseline_peak_wrong)
{
    return UNUSED, plan->baseline_peak_bytes++, true;
}
SPOIL(baseline_seconds_wrong)
{
    return UNUSED, plan->baseline_seconds *= 1.001, plan->baseline_seconds > 0;
}
SPOIL(floor_above_the_peak)
{
    return UNUSED, plan->floor_bytes = plan->peak_bytes + 1, true;
}
SPOIL(bound_above_the_seconds)
{
    UNUSED;
    plan->lower_bound_seconds = plan->seconds * 1.001;
    return plan->seconds > 0;
}

SPOIL(floor_above_what_is_proved)
{
    (void)random;
    int unused;
    assert_int_equal(mp_floor(graph, &plan->floor_bytes, &unused, NULL), MP_OK);
    return plan->floor_bytes++ < plan->peak_bytes;
}
SPOIL(bound_above_what_is_proved)
{
    UNUSED;
    plan->budget_bytes = MP_NO_LIMIT;
    plan->lower_bound_seconds = plan->seconds;
    return plan->seconds > plan->baseline_seconds;
}
SPOIL(bound_of_unknown_orders)
{
    UNUSED;
    mp_free(plan->bound_covers);
    return (plan->bound_covers = mp_plan_text("zzz")) != NULL;
}
SPOIL(checkpoint_twice)
{
    UNUSED;
    if (plan->n_checkpoints < 2) return false;
    plan->checkpoints[1] = plan->checkpoints[0];
    return true;
}

const corruption corruptions[] = {
    {"drop_forward_node", drop_forward_node, "never runs", false},
    {"drop_backward_node", drop_backward_node, "never runs", false},
    {"drop_update", drop_update, "never runs", false},
    {"double_backward_node", double_backward_node, "must run once", false},
    {"double_loss", double_loss, "must run once", false},
    {"double_update", double_update, "must run once", false},
    {"double_once_node", double_once_node, "must run once", false},
    {"recompute_at_the_end", recompute_at_the_end, "claims", false},
    {"read_before_produced", read_before_produced, "which no earlier step has produced", false},
    {"read_incomplete_sum", read_incomplete_sum, "before all nodes have added to it", false},
    {"add_out_of_order", add_out_of_order, "out of order", false},
    {"update_too_early", update_too_early, "before the end of backward", false},
    {"update_before_its_readers", update_before_its_readers, "still reads", false},
    {"update_after_its_readers", update_after_its_readers, "has read before", false},
    {"update_before_its_gradient", update_before_its_gradient, "which no earlier step has produced", true},
    {"unknown_alternative", unknown_alternative, "has no alternative", false},
    {"other_alternative", other_alternative, "the plan claims", false},
    {"wrong_recompute_flag", wrong_recompute_flag, "recompute", false},
    {"missing_free", missing_free, "does not free", false},
    {"free_of_another", free_of_another, "must not free", false},
    {"free_too_early", free_too_early, "must not free", false},
    {"peak_too_low", peak_too_low, "a peak_bytes", false},
    {"peak_too_high", peak_too_high, "a peak_bytes", false},
    {"peak_not_stated", peak_not_stated, "a peak_bytes", false},
    {"static_wrong", static_wrong, "a static_bytes", false},
    {"seconds_wrong", seconds_wrong, "seconds", false},
    {"seconds_not_stated", seconds_not_stated, "seconds", false},
    {"hash_of_another_graph", hash_of_another_graph, "with hash", true},
    {"checkpoint_that_is_none", checkpoint_that_is_none, "listed as a checkpoint", true},
    {"checkpoint_missing", checkpoint_missing, "but the list of checkpoints lacks it", true},
    {"baseline_peak_wrong", baseline_peak_wrong, "baseline_peak_bytes", true},
    {"baseline_seconds_wrong", baseline_seconds_wrong, "baseline_seconds", true},
    {"floor_above_the_peak", floor_above_the_peak, "no plan needs less", true},
    {"bound_above_the_seconds", bound_above_the_seconds, "no plan takes less", true},
    {"floor_above_what_is_proved", floor_above_what_is_proved, "the proved bound is", true},
    {"bound_above_what_is_proved", bound_above_what_is_proved, "the proved bound is", true},
    {"bound_of_unknown_orders", bound_of_unknown_orders, "bound covers", true},
    {"checkpoint_twice", checkpoint_twice, "twice", true},
};
const size_t n_corruptions = sizeof corruptions / sizeof *corruptions;
