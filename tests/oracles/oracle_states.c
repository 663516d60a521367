/* oracle_states.c - a hash table and a binary heap. */
#include "tests/oracles/oracle_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void queue_push(struct oracle_states *o, struct entry e)
{
    int i = o->n_heap++;
    for (; i > 0; i = (i - 1) / 2) {
        struct entry *up = &o->heap[(i - 1) / 2];
        if (up->extra < e.extra || (up->extra == e.extra && up->left <= e.left)) break;
        o->heap[i] = *up;
    }
    o->heap[i] = e;
}

int oracle_states_pop(struct oracle_states *o)
{
    int first = o->heap[0].state, i = 0;
    struct entry e = o->heap[--o->n_heap];
    for (int child = 1; child < o->n_heap; child = 2 * i + 1) {
        struct entry *a = &o->heap[child], *b = a + 1;
        if (child + 1 < o->n_heap && (b->extra < a->extra || (b->extra == a->extra && b->left < a->left))) {
            a = b;
            child++;
        }
        if (e.extra < a->extra || (e.extra == a->extra && e.left <= a->left)) break;
        o->heap[i] = *a;
        i = child;
    }
    o->heap[i] = e;
    return first;
}

static bool is_same(const struct state *a, const struct state *b)
{
    return a->ran == b->ran && a->live == b->live && a->n_flights == b->n_flights &&
           !memcmp(a->flights, b->flights, (size_t)a->n_flights * sizeof *a->flights);
}

static int find_slot(const struct oracle_states *o, const struct state *s)
{
    uint64_t hash = (s->ran * UINT64_C(0x9e3779b97f4a7c15)) ^ (s->live * UINT64_C(0xc2b2ae3d27d4eb4f));
    for (int i = 0; i < s->n_flights; i++)
        hash = (hash ^ (uint64_t)(s->flights[i].node * 1000 + s->flights[i].left)) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    int slot = (int)((hash ^ hash >> 32) & (uint64_t)(o->table_size - 1));
    while (o->table[slot] && !is_same(&o->states[o->table[slot] - 1], s)) slot = (slot + 1) & (o->table_size - 1);
    return slot;
}

/* Ensures space for one more state and entry. */
static void make_room(struct oracle_states *o)
{
    if (o->n_heap == o->heap_capacity) {
        o->heap_capacity = o->heap_capacity ? 2 * o->heap_capacity : 1024;
        assert_non_null(o->heap = realloc(o->heap, (size_t)o->heap_capacity * sizeof *o->heap));
    }
    if (o->n < o->capacity) return;
    o->capacity = o->capacity ? 2 * o->capacity : 1024;
    o->table_size = 2 * o->capacity;
    assert_non_null(o->states = realloc(o->states, (size_t)o->capacity * sizeof *o->states));
    free(o->table);
    assert_non_null(o->table = calloc((size_t)o->table_size, sizeof *o->table));
    for (int k = 0; k < o->n; k++) o->table[find_slot(o, &o->states[k])] = k + 1;
}

bool oracle_states_reach(struct oracle_states *o, struct state s, int n_nodes, int most)
{
    make_room(o);
    int slot = find_slot(o, &s), k = o->table[slot] - 1;
    if (k >= 0 && o->states[k].extra <= s.extra) return true;
    if (k < 0) {
        if (o->n == most) return false;
        k = o->n++;
        o->table[slot] = k + 1;
    }
    o->states[k] = s;
    queue_push(o, (struct entry){s.extra, n_nodes - __builtin_popcountll(s.ran), k});
    return true;
}

void oracle_states_free(struct oracle_states *o)
{
    free(o->states);
    free(o->table);
    free(o->heap);
}
