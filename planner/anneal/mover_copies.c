/* mover_copies.c - moves that copy a storage to another tier and back, instead of keeping or recomputing it. The positions at
 * which a copy begins and at which compute waits for it are random. Later moves shift both positions like those of other
 * runs. */
#include "planner/anneal/mover.h"

#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    MOVE_COPY_ANYWHERE_ONE_IN = 4,   /* 1 in 4 copies back starts at a random step, not where compute hides the copy */
    MOVE_COPY_WAITED_FOR_ONE_IN = 3, /* the wait for 1 in 3 copies out is placed where memory is short */
};

/* Returns the run at a position. If the position is empty, returns the first run after it. */
static int run_from(const mp_runs *x, int position)
{
    return x->run_at[position] >= 0 ? x->run_at[position] : mp_runs_neighbour(x, position, 1);
}

/* Total ticks of the copies that the current move has issued. Copies of several outputs of one node run one after the other on
 * the link. */
typedef struct queued {
    int64_t out_ticks, back_ticks;
} queued;

/* Returns the first run that begins after a copy has ended. The copy is issued at `position`. It runs after all earlier copies
 * on its channel, and after `before` ticks of copies that the current move has issued. */
static int run_at_end(const mp_runs *x, const mp_alternative *copy, int position, int64_t before)
{
    int64_t waited = 0, end = mp_runs_ticks_before(x, position);
    for (int k = mp_run_list_find(x, &x->queue, position) - 1, n = 0; k >= 0 && n < MP_MOVE_LIST; k--, n++) {
        const mp_node_run *r = &x->runs[x->queue.runs[k]];
        if (!n) end += waited = r->waited;
        if (r->is_wait || r->does->channel != copy->channel) continue;
        if (r->ended > end) end = r->ended;
        break;
    }
    return run_from(x, mp_runs_reach(x, end + before + copy->ticks - waited));
}

/* Issues a copy of a storage right after its producer, unless the order contains this copy. Inserts a wait for the copy before
 * the run *wait. If the copy ends after *wait begins, *wait is usually changed to the first run that begins after the copy's
 * end. Returns false if the copy would end after the run `reader`. */
static bool copy_out(mp_mover *m, const mp_way *copy, int *wait, int reader, queued *queue)
{
    mp_runs *x = m->runs;
    int at = *wait;
    if (x->of_node[copy->out].n) return true;
    const mp_alternative *does = &x->graph->nodes[copy->out].alternatives[0];
    const int made = mp_runs_latest_producer(x, copy->storage, mp_runs_position(x, at));
    const int after = made < 0 ? -1 : mp_runs_neighbour(x, mp_runs_position(x, made), 1);
    if (after >= 0 && mp_mover_below(m, MOVE_COPY_WAITED_FOR_ONE_IN)) {
        const int end = run_at_end(x, does, mp_runs_position(x, after), queue->out_ticks);
        if (end >= 0 && mp_runs_position(x, end) >= mp_runs_position(x, reader)) return false;
        if (end >= 0 && mp_runs_position(x, end) > mp_runs_position(x, at)) *wait = at = end;
    }
    const int out = after < 0 ? -1 : mp_runs_issue(x, copy->out, 0, after, at);
    if (out >= 0) mp_runs_turn_on(x, out);
    queue->out_ticks += does->ticks;
    return out >= 0;
}

/* Copies a storage back to the device for a reader. The copy begins at a random position between the run `at` and the reader.
 * Usually the position is so early that compute hides all copies back of this move. */
static bool bring_back(mp_mover *m, const mp_way *copy, int at, int reader, queued *queue)
{
    mp_runs *x = m->runs;
    const int from = mp_runs_position(x, at), to = mp_runs_position(x, reader);
    const double ticks = (double)(queue->back_ticks += x->graph->nodes[copy->node].alternatives[copy->alternative].ticks);
    int ahead = to - 1;
    /* the copy begins so early that compute, from the begin of the copy to the reader, takes at least as long as the copies
     * back of this move */
    if (mp_mover_below(m, MOVE_COPY_ANYWHERE_ONE_IN))
        ahead = mp_runs_ahead(x, to, (int64_t)(ticks * (mp_mover_below(m, 2) ? 1 : 1 + mp_mover_uniform(m))));
    else if (from < to)
        ahead = from + mp_mover_below(m, to - from);
    const int before = mp_runs_neighbour(x, ahead > from ? ahead : from, 1);
    const int back = mp_runs_issue(x, copy->node, copy->alternative, before, reader);
    if (back < 0 || !mp_runs_allows(x, copy->node, copy->alternative, mp_runs_position(x, back), -1)) return false;
    mp_runs_turn_on(x, back);
    return true;
}

/* Copies storage s to another tier and back. Run `at` waits for the copy out, and `reader` for the copy back. If no run reads
 * the recomputation that provided s for the reader any more, removes it. If a copy cannot be inserted, the move is
 * abandoned. */
static bool copy(mp_mover *m, int s, int at, int reader, queued *queue)
{
    const mp_runs *x = m->runs;
    const int n = mp_ways_of(&m->ways, s), earlier = mp_runs_latest_producer(x, s, mp_runs_position(x, reader));
    const mp_way *way = &m->ways.ways[m->ways.start[s] + (n > 1 ? mp_mover_below(m, n) : 0)];
    m->has_given_up = !copy_out(m, way, &at, reader, queue) || !bring_back(m, way, at, reader, queue);
    if (m->has_given_up) return false;
    if (earlier >= 0 && mp_runs_is_extra(x, earlier) && mp_runs_is_dead(x, earlier)) mp_mover_drop(m, earlier);
    return true;
}

bool mp_move_copy(mp_mover *m, int s, int position, int reader)
{
    const int at = run_from(m->runs, position);
    queued queue = {0};
    return at >= 0 && at != reader && copy(m, s, at, reader, &queue);
}

/* Copies all outputs of a node that are live at a position to another tier and back. */
static bool copy_all(mp_mover *m, int node, int position)
{
    const mp_runs *x = m->runs;
    const mp_alternative *makes = &x->graph->nodes[node].alternatives[0];
    const int at = run_from(x, position);
    queued queue = {0};
    for (size_t k = 0; at >= 0 && k < makes->n_writes && !m->has_given_up; k++) {
        const int s = makes->writes[k], from = mp_runs_position(x, at);
        const int reader = mp_ways_of(&m->ways, s) && mp_runs_is_live(x, s, from) ? mp_runs_next_read(x, s, from) : -1;
        if (reader >= 0) copy(m, s, at, reader, &queue);
    }
    return queue.back_ticks > 0 && !m->has_given_up;
}

bool mp_move_copy_instead(mp_mover *m)
{
    const mp_runs *x = m->runs;
    const int run = mp_mover_any_extra(m);
    if (run < 0 || x->runs[run].mate >= 0 || !mp_runs_can_spare(x, run)) return false;
    const mp_node_run r = x->runs[run];
    const int s = r.does->n_writes ? r.does->writes[mp_mover_below(m, (int)r.does->n_writes)] : -1;
    const int before = s < 0 ? -1 : mp_run_list_find(x, &x->producers[s], r.position) - 1;
    if (before < 0) return false;
    /* the end of the storage's previous instance: between this position and the position of `run`, no run reads the storage */
    const int position = mp_lifetime_end(x, s, before);
    /* the recomputation is removed before the copies are inserted, because copies cannot hide behind its ticks */
    mp_mover_drop(m, run);
    return copy_all(m, r.node, position);
}

/* Draws a few issued runs. Returns the first drawn run for which compute has to wait. If there is none, returns the last drawn
 * run. */
static int any_issued(mp_mover *m)
{
    const mp_runs *x = m->runs;
    int run = -1;
    for (int k = 0; k < MP_MOVE_DRAWS && x->queue.n; k++) {
        const int drawn = x->queue.runs[mp_mover_below(m, x->queue.n)];
        run = x->runs[drawn].is_wait ? x->runs[drawn].mate : drawn;
        const int wait = x->runs[run].mate;
        const int64_t at = mp_runs_ticks_before(x, mp_runs_position(x, wait)) + x->runs[wait].waited;
        if (x->runs[run].ended >= at) break;
    }
    return run;
}

bool mp_move_wait(mp_mover *m)
{
    mp_runs *x = m->runs;
    const int run = any_issued(m), wait = run < 0 ? -1 : x->runs[run].mate;
    if (run < 0) return false;
    const mp_alternative *does = x->runs[run].does;
    const int position = mp_runs_position(x, wait);
    const int s = does->n_writes ? does->writes[0] : -1;
    if (mp_mover_below(m, 2)) { /* moves the wait to the first run after the copy's end */
        const int reader = s < 0 ? -1 : mp_runs_next_read(x, s, mp_runs_position(x, run));
        int end = run_from(x, mp_runs_reach(x, x->runs[run].ended - x->runs[run].waited));
        if (reader >= 0 && end >= 0 && mp_runs_position(x, end) > mp_runs_position(x, reader)) end = reader;
        return end >= 0 && mp_mover_relocate(m, wait, end) >= 0;
    }
    const int ahead = mp_runs_ahead(x, position, (int64_t)((double)does->ticks * (1 + mp_mover_uniform(m))));
    return mp_mover_relocate(m, run, mp_runs_neighbour(x, ahead > 0 ? ahead : 0, 1)) >= 0;
}
