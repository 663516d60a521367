/* pofo.c - POFO's tables, and the plans for its decisions. */
#include "tests/oracles/pofo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = POFO_BYTES + 1, MOST_STEPS = 2000, MOST_COPIES = 4 * POFO_CELLS };

/* Layer i turns state i into state i + 1; it is cell i + 1 of the chain. */
struct pofo {
    const cells *c;
    int n, bytes, ticks;
    bool copies; /* copies are allowed */
    int forward[POFO_CELLS + 1], backward[POFO_CELLS + 1];
    int state[POFO_CELLS + 1], all[POFO_CELLS + 1], gradient[POFO_CELLS + 1]; /* bytes; all: state and internal value */
    int rotor[POFO_CELLS][POFO_CELLS][SIDE];                                  /* 0: not computed yet */
    int *table; /* indexed by states with all values of the previous layer, then by states without them */
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- chains without copies ---- */

/* Returns the memory to run layers i..k - 1 and keep only the state before layer i, which is not counted. */
static int passing_bytes(const pofo *p, int i, int k)
{
    int most = 0;
    for (int l = i; l < k; l++) most = larger(most, (l > i ? p->state[l] : 0) + p->all[l + 1]);
    return most;
}

static int sum_of(const int *ticks, int from, int to)
{
    int sum = 0;
    for (int k = from; k < to; k++) sum += ticks[k];
    return sum;
}

/* Returns the memory for layer i with all values kept, and for its backward. The gradient of state j + 1 stays in memory during
 * layer i's forward. */
static int keeping_bytes(const pofo *p, int i, int j)
{
    return p->all[i + 1] + larger(p->gradient[j + 1], p->gradient[i + 1] + p->gradient[i]);
}

/* Returns the ticks of layers i..j, forward and backward, given state i and the gradient of state j + 1. The state is not
 * counted in `bytes`. *at: layer up to whose state the first layers run without keeping values; i: layer i keeps all. */
static int rotor(pofo *p, int i, int j, int bytes, int *at)
{
    int best = POFO_NEVER, unused;
    if (bytes < 0) return POFO_NEVER;
    if (!at && p->rotor[i][j][bytes]) return p->rotor[i][j][bytes];
    if (!at) at = &unused;
    if (keeping_bytes(p, i, j) <= bytes) {
        const int rest = i == j ? 0 : rotor(p, i + 1, j, bytes - p->all[i + 1], NULL);
        best = p->forward[i] + p->backward[i] + rest;
        *at = i;
    }
    for (int k = i + 1; k <= j; k++) {
        if (passing_bytes(p, i, k) + p->gradient[j + 1] > bytes) continue;
        const int ticks =
            sum_of(p->forward, i, k) + rotor(p, k, j, bytes - p->state[k], NULL) + rotor(p, i, k - 1, bytes, NULL);
        if (ticks >= best) continue;
        best = ticks;
        *at = k;
    }
    return p->rotor[i][j][bytes] = best > POFO_NEVER ? POFO_NEVER : best;
}

/* ---- with copies ---- */

typedef struct situation {
    int i, kept, out, in; /* the layer; bytes kept, still to be copied out, and still to be copied back */
    bool has_all;         /* all values of the previous layer, or only its state */
} situation;

/* to: the next layer. With to == i + 1 and `keeps`, layer i keeps all values. */
typedef struct decision {
    int to;
    bool keeps, copies;
} decision;

static int own_bytes(const pofo *p, const situation *s)
{
    return s->i == 0 ? 0 : s->has_all ? p->all[s->i] : p->state[s->i];
}

/* Returns the ticks of a decision and sets the next situation; POFO_NEVER: it does not fit. */
static int decide(pofo *p, const situation *s, const decision *d, situation *next)
{
    const int own = own_bytes(p, s), room = p->bytes - s->kept - own; /* without the bytes being copied */
    int wait = 0, back_wait = 0, ticks = 0, back_ticks;
    for (int k = s->i; k < d->to; k++) {
        const int needed = (k > s->i ? p->state[k] : 0) + p->all[k + 1];
        if (needed > room) return POFO_NEVER;
        wait = larger(wait, s->out + needed - room - ticks);
        ticks += p->forward[k];
    }
    if (d->keeps) {
        const int back = p->all[d->to] + p->gradient[d->to] + p->gradient[s->i];
        if (back > room) return POFO_NEVER;
        back_wait = larger(0, s->in + back - room);
        back_ticks = p->backward[s->i];
    } else {
        back_ticks = rotor(p, s->i, d->to - 1, room, NULL);
        if (back_ticks >= POFO_NEVER) return POFO_NEVER;
    }
    *next = (situation){.i = d->to,
                        .kept = s->kept + (d->copies ? 0 : own),
                        .out = larger(0, s->out + (d->copies ? own : 0) - ticks - wait),
                        .in = larger(0, s->in - back_ticks - back_wait) + (d->copies ? own : 0),
                        .has_all = d->keeps};
    return ticks + wait + back_ticks + back_wait;
}

static int best_of(pofo *p, situation s, decision *chosen)
{
    int best = POFO_NEVER;
    const int room = p->bytes - s.kept - own_bytes(p, &s);
    if (room < 0 || s.out > POFO_BYTES || s.in > POFO_BYTES || s.kept > POFO_BYTES) return POFO_NEVER;
    int *known = &p->table[((((size_t)s.has_all * SIDE + (size_t)s.kept) * SIDE + (size_t)s.out) * SIDE + (size_t)s.in) *
                               (POFO_CELLS + 1) +
                           (size_t)s.i];
    if (*known && !chosen) return *known;
    if (s.i == p->n) return *known = p->gradient[p->n] <= room ? 1 + s.out + s.in : POFO_NEVER;
    for (int to = s.i + 1; to <= p->n; to++)
        for (int k = 0; k < 4; k++) {
            const decision d = {.to = to, .keeps = k & 1, .copies = k & 2};
            if ((d.keeps && to > s.i + 1) || (d.copies && (s.i == 0 || !p->copies))) continue;
            situation next;
            int ticks = decide(p, &s, &d, &next);
            if (ticks < POFO_NEVER) ticks += best_of(p, next, NULL);
            if (ticks >= best) continue;
            best = ticks;
            if (chosen) *chosen = d;
        }
    return *known = best;
}

pofo *pofo_solve(const cells *c, int bytes, bool copies)
{
    pofo *p = mp_alloc(1, sizeof *p);
    assert_true(p && c->n <= POFO_CELLS && bytes <= POFO_BYTES);
    *p = (pofo){.c = c, .n = c->n, .bytes = bytes, .copies = copies};
    for (int k = 1; k <= p->n; k++) {
        const cell *x = &c->cell[k];
        assert_true(x->reads_before && x->reads_after);
        p->forward[k - 1] = (int)x->ticks;
        p->backward[k - 1] = (int)c->backward_ticks[k];
        p->state[k] = (int)x->state_bytes;
        p->all[k] = (int)(x->state_bytes + (x->internal_bytes > 0 ? x->internal_bytes : 0));
        p->gradient[k - 1] = (int)x->gradient_bytes;
    }
    p->gradient[p->n] = (int)c->last_gradient_bytes;
    p->table = mp_alloc((size_t)2 * SIDE * SIDE * SIDE * (POFO_CELLS + 1), sizeof *p->table);
    assert_non_null(p->table);
    p->ticks = best_of(p, (situation){0}, NULL);
    return p;
}

void pofo_free(pofo *p)
{
    mp_free(p->table);
    mp_free(p);
}

int pofo_ticks(const pofo *p)
{
    return p->ticks >= POFO_NEVER ? -1 : p->ticks - 1; /* stored ticks are 1 larger, because 0 means not computed */
}

/* ---- as a plan ---- */

/* A copied storage: out after step `there`, back before step `used`, counted in compute steps. out[0], in[0]: issue of the
 * copy; [1]: wait. */
typedef struct copied {
    int storage, there, used, out[2], in[2];
} copied;

typedef struct script {
    pofo *p;
    const mp_graph *graph;
    int nodes[MOST_STEPS], n_nodes;
    copied copies[MOST_COPIES];
    int n_copies;
} script;

static void run_node(script *s, int node)
{
    assert_true(s->n_nodes < MOST_STEPS);
    s->nodes[s->n_nodes++] = node;
}

static void run_backward(script *s, int layer)
{
    run_node(s, s->p->n + 1 + (s->p->n - 1 - layer));
}

static void run_rotor(script *s, int i, int j, int bytes)
{
    int at;
    assert_true(rotor(s->p, i, j, bytes, &at) < POFO_NEVER);
    if (at == i) {
        run_node(s, i);
        if (i < j) run_rotor(s, i + 1, j, bytes - s->p->all[i + 1]);
        run_backward(s, i);
        return;
    }
    for (int k = i; k < at; k++) run_node(s, k);
    run_rotor(s, at, j, bytes - s->p->state[at]);
    run_rotor(s, i, at - 1, bytes);
}

static void run_from(script *s, situation at)
{
    pofo *p = s->p;
    decision d;
    situation next;
    const int first = s->n_copies, there = s->n_nodes;
    if (at.i == p->n) return run_node(s, p->n);
    assert_true(best_of(p, at, &d) < POFO_NEVER && decide(p, &at, &d, &next) < POFO_NEVER);
    if (d.copies) {
        const mp_alternative *made = s->graph->nodes[at.i - 1].alternatives;
        for (size_t k = 0; k < (at.has_all ? made->n_writes : 1); k++)
            s->copies[s->n_copies++] = (copied){.storage = made->writes[k], .there = there};
    }
    const int last = s->n_copies;
    for (int k = at.i; k < d.to; k++) run_node(s, k);
    run_from(s, next);
    for (int k = first; k < last; k++) s->copies[k].used = s->n_nodes;
    if (d.keeps)
        run_backward(s, at.i);
    else
        run_rotor(s, at.i, d.to - 1, p->bytes - at.kept - own_bytes(p, &at));
}

/* Returns the steps with the copies at their issue positions. Release with mp_free. */
static mp_step *steps_of(const script *s, size_t *n)
{
    mp_step *steps = mp_alloc((size_t)(s->n_nodes + 2 * s->n_copies), sizeof *steps);
    int at = 0, before[MOST_STEPS + 1], moved_to[MOST_STEPS + 1]; /* before: includes the copies issued there */
    for (int t = 0; t <= s->n_nodes; t++) {
        before[t] = at;
        /* copies back are in the order of use, the reverse of the copies out */
        for (int k = s->n_copies - 1; k >= 0; k--) {
            if (s->copies[k].in[0] != t) continue;
            const int maker = s->graph->producer[s->copies[k].storage];
            int back = (int)s->graph->nodes[maker].n_alternatives - 1;
            while (s->graph->nodes[maker].alternatives[back].writes[0] != s->copies[k].storage) back--;
            steps[at++] = (mp_step){maker, back, -1 - s->copies[k].in[1]};
        }
        for (int k = 0; k < s->n_copies; k++)
            for (int v = 0; s->copies[k].out[0] == t && v < (int)s->graph->n_nodes; v++)
                if (s->graph->nodes[v].flags & MP_NODE_OPTIONAL &&
                    s->graph->nodes[v].alternatives->reads[0] == s->copies[k].storage)
                    steps[at++] = (mp_step){v, 0, -1 - s->copies[k].out[1]};
        moved_to[t] = at;
        if (t < s->n_nodes) steps[at++] = (mp_step){s->nodes[t], 0, 0};
    }
    for (int t = 0; t < at; t++)
        if (steps[t].until < 0) steps[t].until = (steps[t].alternative ? moved_to : before)[-1 - steps[t].until];
    *n = (size_t)at;
    return steps;
}

mp_plan *pofo_plan(pofo *p, const mp_graph *graph)
{
    static script s;
    mp_plan *plan = NULL;
    mp_error err = {0};
    size_t n;
    int64_t live[MOST_STEPS], bytes[MOST_COPIES];
    s = (script){.p = p, .graph = graph};
    run_from(&s, (situation){0});
    for (int k = 0; k < s.n_copies; k++) {
        copied *c = &s.copies[k];
        bytes[k] = graph->storages[c->storage].bytes;
        c->out[0] = c->there;
        c->out[1] = c->there + 1; /* the reader of its state needs it in memory during this step anyway */
        c->in[0] = c->in[1] = c->used;
    }
    /* live bytes if copies take no extra time */
    mp_step *steps = steps_of(&s, &n);
    mp_timeline *timeline = NULL;
    if (mp_timeline_build(graph, steps, n, &timeline, &err) != MP_OK) fail_msg("%s", err.message);
    for (size_t t = 0, k = 0; t < n; t++)
        if (graph->nodes[steps[t].node].alternatives[steps[t].alternative].channel == MP_CHANNEL_COMPUTE)
            live[k++] = timeline->live_bytes[t];
    mp_timeline_free(timeline);
    mp_free(steps);
    int turn = 0;
    while (s.nodes[turn] != p->n) turn++;
    for (int t = 1; t <= turn; t++) { /* the first copy out is the first awaited */
        for (int k = 0; k < s.n_copies; k++)
            if (s.copies[k].there < t && s.copies[k].out[1] == t) live[t] += bytes[k];
        for (int k = 0; k < s.n_copies; k++) {
            if (s.copies[k].there >= t || s.copies[k].out[1] < t) continue;
            if (live[t] > p->bytes)
                live[t] -= bytes[k];
            else
                s.copies[k].out[1] = t + 1;
        }
    }
    for (int t = s.n_nodes - 1; t > turn; t--) { /* the last used copy is the last to return */
        for (int k = 0; k < s.n_copies; k++)
            if (s.copies[k].in[0] == t + 1) live[t] += bytes[k];
        for (int k = 0; k < s.n_copies; k++) {
            if (s.copies[k].in[0] != t + 1) continue;
            if (live[t] > p->bytes)
                live[t] -= bytes[k];
            else
                s.copies[k].in[0] = t;
        }
    }
    steps = steps_of(&s, &n);
    if (mp_plan_new(graph, "pofo", steps, n, &plan, &err) != MP_OK) fail_msg("%s", err.message);
    mp_free(steps);
    return plan;
}
