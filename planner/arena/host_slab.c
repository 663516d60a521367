/* host_slab.c - collects one item per storage that the plan copies out and back, and places these items like an arena. */
#include "planner/arena/host_slab.h"

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/arena/arena.h"

typedef struct stay { /* the time that a storage spends in host memory */
    int out, end;     /* steps [out, end) from the copy out to the end of the last copy back; end 0: never copied back */
    int item;
} stay;

typedef struct slab {
    const mp_graph *graph;
    const mp_plan *plan;
    int tier;
    stay *stays; /* per storage */
    mp_pack_piece *pieces;
    mp_arena_problem problem;
} slab;

/* Returns the storage of the slab that step t copies out or back; -1: none. */
static int copied(const slab *x, int t, mp_copy_way *way)
{
    const mp_step step = x->plan->steps[t];
    const mp_alternative *a = &x->graph->nodes[step.node].alternatives[step.alternative];
    *way = mp_copy_way_of(x->graph, step.node, step.alternative);
    if (*way == MP_COPY_NONE) return -1;
    const int s = *way == MP_COPY_OUT ? *a->writes : *a->reads;
    const mp_storage *storage = &x->graph->storages[s];
    return storage->tier == x->tier && !mp_storage_is_static(storage) ? s : -1;
}

static void find_stays(slab *x, int turn)
{
    const int n = (int)x->plan->n_steps;
    mp_copy_way way;
    int boundary = n;
    for (int t = 0; t < n && turn >= 0; t++)
        if (x->plan->steps[t].node == turn) boundary = t;
    for (int t = 0; t < n; t++) {
        const int s = copied(x, t, &way);
        if (s < 0) continue;
        if (way == MP_COPY_OUT) {
            x->stays[s] = (stay){.out = t};
            continue;
        }
        /* a copy back that begins before the boundary ends there at the latest */
        int end = mp_step_end(x->plan->steps, t);
        if (t < boundary && end > boundary) end = boundary;
        if (t > boundary && x->stays[s].out < boundary) end = n;
        if (end > x->stays[s].end) x->stays[s].end = end;
    }
}

/* Makes one item per storage that is copied back, in the order of the copies out. */
static mp_status make_items(slab *x, mp_error *err)
{
    mp_arena_problem *problem = &x->problem;
    mp_copy_way way;
    int64_t rounded, total = 0;
    for (int t = 0; t < (int)x->plan->n_steps; t++) {
        const int s = copied(x, t, &way);
        if (s < 0 || way != MP_COPY_OUT) continue;
        stay *l = &x->stays[s];
        l->item = -1;
        if (!l->end || !x->graph->storages[s].bytes) continue;
        MP_ENSURE(mp_round_up(x->graph->storages[s].bytes, MP_HOST_SLAB_GRAIN, &rounded) && mp_add(total, rounded, &total), err,
                  MP_INVALID, "the copies have more bytes than can be counted, from %s on",
                  mp_node_label(x->graph, x->plan->steps[t].node).text);
        l->item = (int)problem->n;
        x->pieces[problem->n] = (mp_pack_piece){l->out, l->end, rounded / MP_HOST_SLAB_GRAIN};
        problem->items[problem->n] = (mp_arena_item){
            .size = rounded / MP_HOST_SLAB_GRAIN, .begin = l->out, .end = l->end, .piece = (int)problem->n, .n_pieces = 1};
        problem->n_pieces = ++problem->n;
    }
    return MP_OK;
}

mp_status mp_host_slab_of(const mp_graph *graph, const mp_plan *plan, int tier, int turn, int64_t most_bytes, mp_host_slab *out,
                          mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED int64_t *offsets = mp_alloc(plan->n_steps, sizeof *offsets);
    slab x = {.graph = graph,
              .plan = plan,
              .tier = tier,
              .stays = mp_pool_alloc(pool, graph->n_storages, sizeof *x.stays),
              .pieces = mp_pool_alloc(pool, plan->n_steps, sizeof *x.pieces)};
    mp_copy_way way;
    x.problem = (mp_arena_problem){.items = mp_pool_alloc(pool, plan->n_steps, sizeof *x.problem.items),
                                   .pieces = x.pieces,
                                   .n_steps = plan->n_steps,
                                   .wanted = most_bytes / MP_HOST_SLAB_GRAIN};
    MP_ENSURE(!mp_pool_failed(pool) && offsets, err, MP_NOMEM, "out of memory for the copies of %zu steps", plan->n_steps);
    find_stays(&x, turn);
    MP_CHECK(make_items(&x, err));
    MP_CHECK(mp_arena_search(&x.problem, err));
    for (int t = 0; t < (int)plan->n_steps; t++) {
        const int s = copied(&x, t, &way), item = s < 0 ? -1 : x.stays[s].item;
        offsets[t] = item < 0 ? -1 : x.problem.items[item].offset * MP_HOST_SLAB_GRAIN;
    }
    *out = (mp_host_slab){x.problem.height * MP_HOST_SLAB_GRAIN, plan->n_steps, offsets};
    offsets = NULL;
    return MP_OK;
}
