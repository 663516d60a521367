/* planning.c - implements a handle for callers in other languages. The handle contains a graph, a request and its answer.
 * Fields are set and read by name, so that callers need no struct layouts. */
#include "memplan/planning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/graph/liveness.h"
#include "memplan/floor.h"
#include "memplan/target.h"
#include "memplan/training.h"
#include "planner/interface/planning.h"

#define NO_HANDLE "the handle is NULL"

mp_planning *mp_planning_new(const char *name, double tick_seconds)
{
    mp_planning *planning = mp_alloc(1, sizeof *planning);
    if (!planning) return NULL;
    if (mp_graph_new(name ? name : "", &planning->graph, NULL) != MP_OK) {
        mp_free(planning);
        return NULL;
    }
    planning->graph->tick_seconds = tick_seconds;
    planning->floor_bytes = planning->floor_node = planning->turn = -1;
    planning->request.graph = planning->graph;
    planning->request.wants_bound = true;
    return planning;
}

void mp_planning_free(mp_planning *planning)
{
    if (!planning) return;
    mp_answer_free(&planning->answer);
    mp_free(planning->slab.offsets);
    mp_graph_free(planning->graph);
    mp_free(planning);
}

const char *mp_planning_message(const mp_planning *planning)
{
    return planning ? planning->err.message : NO_HANDLE;
}

mp_error *mp_planning_error(mp_planning *planning)
{
    if (!planning) return NULL;
    planning->err = (mp_error){0};
    return &planning->err;
}

const char *mp_planning_hash(const mp_planning *planning)
{
    return planning ? planning->graph->hash : "";
}

const mp_graph *mp_planning_graph(const mp_planning *planning)
{
    return planning ? planning->graph : NULL;
}

const mp_plan *mp_planning_plan(const mp_planning *planning)
{
    if (!planning || !planning->has_answer) return NULL;
    return planning->answer.plan ? planning->answer.plan : planning->answer.smallest;
}

/* ---- the starts of the functions ---- */

mp_status mp_planning_begin(mp_planning *planning, bool has_texts)
{
    if (!planning) return MP_INVALID;
    planning->err = (mp_error){0};
    return has_texts ? MP_OK : MP_FAIL(&planning->err, MP_INVALID, "a text argument of the call is NULL");
}

mp_status mp_planning_begin_change(mp_planning *planning, bool has_texts)
{
    mp_status st = mp_planning_begin(planning, has_texts);
    if (st != MP_OK || !planning->is_finished) return st;
    return MP_FAIL(&planning->err, MP_INVALID, "the graph is finished and cannot be changed");
}

mp_status mp_planning_begin_search(mp_planning *planning)
{
    mp_status st = mp_planning_begin(planning, true);
    if (st != MP_OK || planning->is_finished) return st;
    return MP_FAIL(&planning->err, MP_INVALID, "the graph is not finished");
}

/* ---- the graph ---- */

/* Starts a function that changes a node. Fails if the node does not exist. */
static mp_status begin_node(mp_planning *planning, int node, bool has_texts, mp_node **out)
{
    MP_CHECK(mp_planning_begin_change(planning, has_texts));
    if (node < 0 || (size_t)node >= planning->graph->n_nodes)
        return MP_FAIL(&planning->err, MP_INVALID, "node number %d does not exist", node);
    *out = &planning->graph->nodes[node];
    return MP_OK;
}

int mp_planning_add_storage(mp_planning *planning, const char *name, const char *kind, int64_t bytes)
{
    mp_storage *storage;
    if (mp_planning_begin_change(planning, name && kind) != MP_OK) return -1;
    const int found = mp_kind_find(kind);
    if (found < 0) {
        MP_FAIL(&planning->err, MP_INVALID, "there is no kind of storage '%s'", kind);
        return -1;
    }
    char *copy = mp_pool_text(planning->graph->pool, name, strlen(name));
    if (!copy) {
        MP_NO_MEMORY(&planning->err);
        return -1;
    }
    if (mp_graph_storage(planning->graph, &storage, &planning->err) != MP_OK) return -1;
    storage->name = copy;
    storage->kind = (mp_kind)found;
    storage->bytes = storage->payload_bytes = bytes;
    return (int)planning->graph->n_storages - 1;
}

int mp_planning_add_node(mp_planning *planning, const char *name, const char *op, const char *phase, int64_t ticks,
                         int64_t workspace_bytes)
{
    mp_node *node;
    if (mp_planning_begin_change(planning, name && op && phase) != MP_OK) return -1;
    const int found = mp_phase_find(phase);
    if (found < 0) {
        MP_FAIL(&planning->err, MP_INVALID, "there is no phase '%s'", phase);
        return -1;
    }
    mp_pool *pool = planning->graph->pool;
    char *own_name = mp_pool_text(pool, name, strlen(name)), *own_op = mp_pool_text(pool, op, strlen(op));
    if (!own_name || !own_op) {
        MP_NO_MEMORY(&planning->err);
        return -1;
    }
    if (mp_graph_node(planning->graph, &node, &planning->err) != MP_OK) return -1;
    node->name = own_name;
    node->op = own_op;
    node->phase = (mp_phase)found;
    node->forward_of = -1;
    node->alternatives->ticks = ticks;
    node->alternatives->workspace_bytes = workspace_bytes;
    return (int)planning->graph->n_nodes - 1;
}

static mp_status connect_in_place(mp_planning *planning, mp_alternative *alternative, const int *storages, size_t n)
{
    if (n % 2) return MP_FAIL(&planning->err, MP_INVALID, "in-place pairs need an even number of storages, not %zu", n);
    mp_in_place *pairs = mp_pool_alloc(planning->graph->pool, n / 2, sizeof *pairs);
    if (!pairs) return MP_NO_MEMORY(&planning->err);
    for (size_t i = 0; i < n / 2; i++) pairs[i] = (mp_in_place){storages[2 * i], storages[2 * i + 1]};
    alternative->in_place = pairs;
    alternative->n_in_place = n / 2;
    return MP_OK;
}

mp_status mp_planning_connect(mp_planning *planning, int node, const char *how, const int *storages, size_t n)
{
    mp_node *found;
    MP_CHECK(begin_node(planning, node, how, &found));
    if (!storages && n) return MP_FAIL(&planning->err, MP_INVALID, "the list of %zu storages is NULL", n);
    for (size_t k = 0; k < n; k++)
        if (storages[k] < 0 || (size_t)storages[k] >= planning->graph->n_storages)
            return MP_FAIL(&planning->err, MP_INVALID, "storage number %d does not exist", storages[k]);
    mp_alternative *a = found->alternatives;
    if (!strcmp(how, "in_place")) return connect_in_place(planning, a, storages, n);
    const struct {
        const char *name;
        int **list;
        size_t *n;
    } rows[] = {{"reads", &a->reads, &a->n_reads}, {"writes", &a->writes, &a->n_writes}, {"adds", &a->adds, &a->n_adds}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(how, rows[k].name) != 0) continue;
        int *copy = mp_graph_list(planning->graph, storages, n);
        if (!copy) return MP_NO_MEMORY(&planning->err);
        *rows[k].list = copy;
        *rows[k].n = n;
        return MP_OK;
    }
    return MP_FAIL(&planning->err, MP_INVALID, "a node has no list '%s'; choose reads, writes, adds or in_place", how);
}

mp_status mp_planning_flag(mp_planning *planning, int node, const char *flag)
{
    static const struct {
        const char *name;
        unsigned bit;
    } flags[] = {{"once", MP_NODE_ONCE}, {"random", MP_NODE_RANDOM}, {"view", MP_NODE_VIEW}};
    mp_node *found;
    MP_CHECK(begin_node(planning, node, flag, &found));
    if (!strcmp(flag, "turn")) {
        planning->turn = node;
        return MP_OK;
    }
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        if (!strcmp(flag, flags[k].name)) {
            found->flags |= flags[k].bit;
            return MP_OK;
        }
    return MP_FAIL(&planning->err, MP_INVALID, "there is no flag '%s'", flag);
}

/* Builds the timeline of a plan, or of keep-all if `plan` is NULL. */
static mp_status timeline_of(mp_planning *planning, const mp_plan *plan, mp_timeline **out, int *node_of_peak)
{
    const mp_graph *graph = planning->graph;
    mp_error *err = &planning->err;
    MP_OWNED mp_step *steps = NULL;
    mp_timeline *timeline = NULL;
    size_t n = plan ? plan->n_steps : graph->n_nodes;
    if (!plan) {
        MP_ENSURE(steps = mp_alloc(n, sizeof *steps), err, MP_NOMEM, "out of memory for a schedule");
        n = mp_keep_all(graph, steps);
    }
    const mp_step *order = plan ? plan->steps : steps;
    MP_CHECK(mp_timeline_build(graph, order, n, &timeline, err));
    *node_of_peak = timeline->peak_step < 0 ? -1 : order[timeline->peak_step].node;
    *out = timeline;
    return MP_OK;
}

mp_status mp_planning_finish(mp_planning *planning)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    int node;
    mp_status st = mp_planning_begin_change(planning, true);
    if (st != MP_OK) return st;
    MP_CHECK(mp_graph_finish(planning->graph, &planning->err));
    MP_CHECK(timeline_of(planning, NULL, &timeline, &node));
    planning->keep_all_bytes = timeline->peak_bytes;
    planning->keep_all_ticks = timeline->ticks;
    planning->static_bytes = timeline->static_bytes;
    planning->is_finished = true;
    return st;
}

mp_status mp_planning_offload(mp_planning *planning, const int *storages, size_t n, const char *link, double bytes_per_second)
{
    mp_status st = mp_planning_begin_search(planning);
    if (st != MP_OK) return st;
    mp_error *err = &planning->err;
    MP_ENSURE(link && (storages || !n), err, MP_INVALID, "the link, or the list of %zu storages, is NULL", n);
    mp_link way;
    MP_ENSURE(mp_link_parse(link, NULL, &way), err, MP_INVALID, "there is no link '%s' to the host's memory", link);
    MP_ENSURE(isfinite(bytes_per_second) && bytes_per_second >= 0, err, MP_INVALID,
              "a link cannot have a rate of %g bytes per second", bytes_per_second);
    MP_ENSURE(planning->graph->n_tiers == 1, err, MP_INVALID, "the graph '%s' already has copies", planning->graph->name);
    for (size_t k = 0; k < n; k++)
        MP_ENSURE(storages[k] >= 0 && (size_t)storages[k] < planning->graph->n_storages, err, MP_INVALID,
                  "storage number %d does not exist", storages[k]);
    if (bytes_per_second > 0) way.out_bytes_per_second = way.in_bytes_per_second = bytes_per_second;
    const int none = -1;
    const mp_offload offload = {
        .host = &way, .least_bytes = 1, .storages = storages ? storages : &none, .n_storages = n, .moves_state = true};
    planning->floor_bytes = planning->floor_node = -1;
    st = mp_graph_offload(planning->graph, &offload, NULL, err);
    planning->is_finished = st == MP_OK; /* a graph that fails the check cannot be planned, so it does not count as finished */
    if (st == MP_OK) planning->static_bytes = mp_graph_static_bytes(planning->graph);
    return st;
}

/* ---- options and answers ---- */

static bool read_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) && *out >= 0 && *out < 9e18;
}

/* Sets when updates run (--fuse), which is a property of the graph. The value "forward" is refused: it requires carried
 * gradients, which callers of this interface cannot declare. */
static mp_status set_fuse(mp_planning *planning, const char *value)
{
    const int fuse = mp_fuse_find(value);
    MP_CHECK(mp_planning_begin_change(planning, true));
    if (fuse != MP_FUSE_NONE && fuse != MP_FUSE_BACKWARD)
        return MP_FAIL(&planning->err, MP_INVALID, "updates cannot be fused into '%s' here; choose 'none' or 'backward'",
                       value);
    planning->graph->fuse = (mp_fuse)fuse;
    return MP_OK;
}

mp_status mp_planning_set(mp_planning *planning, const char *option, const char *value)
{
    MP_CHECK(mp_planning_begin(planning, option && value));
    if (!strcmp(option, "fuse")) return set_fuse(planning, value);
    mp_request *request = &planning->request;
    const int effort = mp_effort_find(value);
    const bool is_yes = !strcmp(value, "yes");
    double number = 0;
    const bool is_number = read_number(value, &number);
    if (!strcmp(option, "solver") && strlen(value) < MP_PLANNING_MOST_NAME) {
        memcpy(planning->solver, value, strlen(value) + 1); /* mp_solve checks that it exists */
        request->solver = planning->solver;
    } else if (!strcmp(option, "effort") && effort >= 0)
        request->effort = (mp_effort)effort;
    else if (!strcmp(option, "bound") && (is_yes || !strcmp(value, "no")))
        request->wants_bound = is_yes;
    else if (!strcmp(option, "seed") && is_number)
        request->seed = (uint64_t)number;
    else if (!strcmp(option, "moves") && is_number)
        request->moves = (int64_t)number;
    else if (!strcmp(option, "time_limit") && is_number)
        request->time_limit = number;
    else if (!strcmp(option, "gap") && is_number)
        request->gap = number;
    else if (!strcmp(option, "host_bytes") && is_number)
        request->tier_bytes[MP_PLANNING_HOST] = (int64_t)number;
    else if (!strcmp(option, "slab_bytes") && is_number)
        planning->slab_bytes = (int64_t)number;
    else
        return MP_FAIL(&planning->err, MP_INVALID, "the search option %s=%s is unknown or invalid", option, value);
    return MP_OK;
}

static int64_t floor_of(mp_planning *planning)
{
    if (planning->is_finished && planning->floor_bytes < 0)
        mp_floor(planning->graph, &planning->floor_bytes, &planning->floor_node, mp_planning_error(planning));
    return planning->floor_bytes;
}

int64_t mp_planning_number(mp_planning *planning, const char *name)
{
    if (!planning || !planning->is_finished || !name) return -1;
    const mp_answer *answer = &planning->answer;
    const mp_plan *plan = answer->plan, *smallest = answer->smallest ? answer->smallest : plan; /* from an earlier answer */
    if (!strcmp(name, "floor_bytes")) return floor_of(planning);
    if (!strcmp(name, "floor_node")) return floor_of(planning) < 0 ? -1 : planning->floor_node;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"keep_all_bytes", planning->keep_all_bytes},
                {"keep_all_ticks", planning->keep_all_ticks},
                {"static_bytes", planning->static_bytes},
                {"planned_bytes", plan ? plan->peak_bytes : -1},
                {"planned_ticks", plan ? plan->ticks : -1},
                {"n_steps", plan ? (int64_t)plan->n_steps : -1},
                {"host_bytes", plan ? plan->tiers[MP_PLANNING_HOST].peak_bytes : -1},
                {"slab_bytes", plan ? planning->slab.bytes : -1},
                {"bound_ticks", planning->has_answer ? answer->bound.ticks : -1},
                {"smallest_bytes", smallest ? smallest->peak_bytes : -1},
                {"smallest_ticks", smallest ? smallest->ticks : -1},
                {"stopped", planning->has_answer ? answer->stopped : -1}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(name, rows[k].name)) return rows[k].value;
    return -1;
}

size_t mp_planning_steps(const mp_planning *planning, int *nodes, size_t most)
{
    const mp_plan *plan = planning ? planning->answer.plan : NULL;
    if (!plan) return 0;
    for (size_t t = 0; nodes && t < plan->n_steps && t < most; t++) nodes[t] = plan->steps[t].node;
    return plan->n_steps;
}

size_t mp_planning_copies(const mp_planning *planning, int *storages, int *until, size_t most)
{
    const mp_plan *plan = planning ? planning->answer.plan : NULL;
    if (!plan) return 0;
    for (size_t t = 0; storages && until && t < plan->n_steps && t < most; t++) {
        const mp_step step = plan->steps[t];
        const mp_alternative *a = &planning->graph->nodes[step.node].alternatives[step.alternative];
        const mp_copy_way way = mp_copy_way_of(planning->graph, step.node, step.alternative);
        storages[t] = -1;
        if (way != MP_COPY_NONE) storages[t] = mp_state_updated(planning->graph, way == MP_COPY_IN ? *a->writes : *a->reads);
        until[t] = mp_step_end(plan->steps, (int)t);
    }
    return plan->n_steps;
}

size_t mp_planning_offsets(const mp_planning *planning, int64_t *offsets, size_t most)
{
    const mp_plan *plan = planning ? planning->answer.plan : NULL;
    if (!plan) return 0;
    for (size_t t = 0; offsets && t < plan->n_steps && t < most; t++) offsets[t] = planning->slab.offsets[t];
    return plan->n_steps;
}

size_t mp_planning_holders(mp_planning *planning, int *node, int *storages, size_t most)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    int unused;
    if (mp_planning_begin_search(planning) != MP_OK) return 0;
    if (!storages) most = 0;
    if (timeline_of(planning, mp_planning_plan(planning), &timeline, node ? node : &unused) != MP_OK) return 0;
    size_t n = 0;
    if (timeline->peak_step >= 0) {
        n = mp_timeline_holders(planning->graph, timeline, timeline->peak_step, storages, most);
        for (size_t k = 0; k < n && k < most; k++)
            storages[k] = mp_state_updated(planning->graph, timeline->spans[storages[k]].storage);
    }
    return n;
}
