/* chain_oracle.c - builds chains cell by cell, and searches all their schedules. */
#include "tests/oracles/chain_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int storage(mp_graph *graph, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    s->name = mp_pool_format(graph->pool, "s%d", (int)s->id);
    return (int)s->id;
}

/* Adds a node with up to four reads and two writes; -1: none. */
static mp_alternative *node(mp_graph *graph, mp_phase phase, const int reads[4], const int writes[2])
{
    mp_node *n;
    int list[4];
    assert_int_equal(mp_graph_node(graph, &n, NULL), MP_OK);
    n->name = mp_pool_format(graph->pool, "n%d", (int)n->id);
    n->op = "Cell";
    n->phase = phase;
    n->forward_of = -1;
    mp_alternative *alternative = n->alternatives;
    for (int i = 0; i < 4; i++)
        if (reads[i] >= 0) list[alternative->n_reads++] = reads[i];
    alternative->reads = mp_graph_list(graph, list, alternative->n_reads);
    for (int i = 0; i < 2; i++)
        if (writes[i] >= 0) list[alternative->n_writes++] = writes[i];
    alternative->writes = mp_graph_list(graph, list, alternative->n_writes);
    return alternative;
}

mp_graph *cells_graph(const cells *c)
{
    mp_graph *graph = NULL;
    mp_error err = {0};
    int state[CELLS + 1], internal[CELLS + 1], gradient[CELLS + 1];
    assert_int_equal(mp_graph_new("cells", &graph, NULL), MP_OK);
    state[0] = storage(graph, MP_KIND_INPUT, 0);
    const int parameter = storage(graph, MP_KIND_PARAMETER, 5), sum = storage(graph, MP_KIND_GRADIENT, 7);
    graph->storages[sum].persistent = true;
    for (int k = 1; k <= c->n; k++) {
        const cell *x = &c->cell[k];
        state[k] = storage(graph, MP_KIND_ACTIVATION, x->state_bytes);
        internal[k] = x->internal_bytes < 0 ? -1 : storage(graph, MP_KIND_SAVED, x->internal_bytes);
        gradient[k - 1] = storage(graph, MP_KIND_ACTIVATION_GRADIENT, x->gradient_bytes);
    }
    gradient[c->n] = storage(graph, MP_KIND_ACTIVATION_GRADIENT, c->last_gradient_bytes);
    for (int k = 1; k <= c->n; k++)
        node(graph, MP_PHASE_FORWARD, (int[]){state[k - 1], parameter, -1, -1}, (int[]){state[k], internal[k]})->ticks =
            c->cell[k].ticks;
    node(graph, MP_PHASE_LOSS, (int[]){state[c->n], -1, -1, -1}, (int[]){gradient[c->n], -1});
    for (int k = c->n; k >= 1; k--) {
        const int before = c->cell[k].reads_before ? state[k - 1] : -1, after = c->cell[k].reads_after ? state[k] : -1;
        mp_alternative *alternative =
            node(graph, MP_PHASE_BACKWARD, (int[]){gradient[k], internal[k], before, after}, (int[]){gradient[k - 1], -1});
        alternative->adds = mp_graph_list(graph, &sum, 1);
        alternative->n_adds = 1;
        alternative->ticks = c->backward_ticks[k];
        graph->nodes[graph->n_nodes - 1].forward_of = k - 1;
    }
    if (mp_graph_finish(graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

/* ---- all schedules ---- */

/* The search state: states and internal values in memory, as bits, and the number of loss and backward nodes that have run. */
typedef struct oracle {
    const cells *c;
    int64_t bytes;
    int64_t *ticks; /* least ticks to each state of the search; -1: not reached */
    bool changed;
} oracle;

static size_t index_of(const oracle *x, unsigned states, unsigned internals, int done)
{
    const size_t n = (size_t)x->c->n;
    return ((size_t)done << 2 * n) | ((size_t)states << n) | internals;
}

static int64_t live_bytes(const oracle *x, unsigned states, unsigned internals)
{
    int64_t bytes = 0;
    for (int k = 1; k <= x->c->n; k++) {
        if (states >> (k - 1) & 1) bytes += x->c->cell[k].state_bytes;
        if (internals >> (k - 1) & 1) bytes += x->c->cell[k].internal_bytes;
    }
    return bytes;
}

/* Returns the bytes of the gradient in memory after `done` of the loss and backward nodes. */
static int64_t gradient_bytes(const oracle *x, int done)
{
    if (done == 0 || done == x->c->n + 1) return 0;
    return done == 1 ? x->c->last_gradient_bytes : x->c->cell[x->c->n + 2 - done].gradient_bytes;
}

static void reach(oracle *x, size_t to, int64_t ticks)
{
    if (x->ticks[to] >= 0 && x->ticks[to] <= ticks) return;
    x->ticks[to] = ticks;
    x->changed = true;
}

static void run_backward(oracle *x, unsigned states, unsigned internals, int done, int64_t ticks)
{
    const int k = x->c->n + 1 - done; /* the cell; n + 1: the loss */
    int64_t made = done == 0 ? x->c->last_gradient_bytes : x->c->cell[k].gradient_bytes;
    if (done == 0 && !(states >> (x->c->n - 1) & 1)) return;
    if (done > 0 && x->c->cell[k].internal_bytes >= 0 && !(internals >> (k - 1) & 1)) return;
    if (done > 0 && x->c->cell[k].reads_after && !(states >> (k - 1) & 1)) return;
    if (done > 0 && x->c->cell[k].reads_before && k > 1 && !(states >> (k - 2) & 1)) return;
    if (live_bytes(x, states, internals) + gradient_bytes(x, done) + made > x->bytes) return;
    reach(x, index_of(x, states, internals, done + 1), ticks);
}

static void leave(oracle *x, unsigned states, unsigned internals, int done)
{
    const int n = x->c->n;
    const int64_t ticks = x->ticks[index_of(x, states, internals, done)];
    for (int k = 1; k <= n; k++) {
        const unsigned bit = 1u << (k - 1), more = x->c->cell[k].internal_bytes >= 0 ? internals | bit : internals;
        if (states & bit) reach(x, index_of(x, states & ~bit, internals, done), ticks);
        if (internals & bit) reach(x, index_of(x, states, internals & ~bit, done), ticks);
        if (k > 1 && !(states >> (k - 2) & 1)) continue;
        if (live_bytes(x, states | bit, more) + gradient_bytes(x, done) > x->bytes) continue;
        reach(x, index_of(x, states | bit, more, done), ticks + x->c->cell[k].ticks);
    }
    if (done <= n) run_backward(x, states, internals, done, ticks);
}

int64_t oracle_least_ticks(const cells *c, int64_t bytes)
{
    const size_t n_states = (size_t)(c->n + 2) << 2 * c->n;
    oracle x = {.c = c, .bytes = bytes, .ticks = mp_alloc(n_states, sizeof *x.ticks), .changed = true};
    assert_true(c->n <= ORACLE_CELLS && x.ticks);
    for (size_t i = 0; i < n_states; i++) x.ticks[i] = -1;
    x.ticks[0] = 0;
    const unsigned sets = 1u << c->n;
    for (int done = 0; done <= c->n + 1; done++)
        for (x.changed = true; x.changed;) { /* until no state becomes cheaper */
            x.changed = false;
            for (unsigned states = 0; states < sets; states++)
                for (unsigned internals = 0; internals < sets; internals++)
                    if (x.ticks[index_of(&x, states, internals, done)] >= 0) leave(&x, states, internals, done);
        }
    const int64_t least = x.ticks[index_of(&x, 0, 0, c->n + 1)];
    mp_free(x.ticks);
    return least;
}
