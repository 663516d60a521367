/* summary_modules.c - adds up operators per module, merges successive equal modules, and sorts rows. The name of an operator
 * contains the name of its module. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/module_name.h"
#include "estimator/base/names.h"
#include "memplan/summary.h"

enum { DEPTH_MAX = 3, TITLE_MAX = 512 };

MP_NAMED(summary_column, "kept", "parameters", "time", "name", "network")

/* Returns the sort key of a row, largest first; 0 if rows are sorted by name or not at all. */
static int64_t rank_of(mp_summary_column column, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks)
{
    const int64_t ranks[] = {saved_bytes, parameter_bytes, ticks};
    return column <= MP_SUMMARY_TIME ? ranks[column] : 0;
}

/* ---- modules ---- */

typedef struct table {
    const mp_graph *graph;
    const mp_summary *summary;
    size_t n;
    mp_module_summary *modules;
} table;

static void sum_up(table *t, int depth)
{
    t->n = 0;
    for (size_t k = 0; k < t->summary->n_operators; k++) {
        const mp_operator_summary *row = &t->summary->operators[k];
        const char *name = t->graph->nodes[row->node].name ? t->graph->nodes[row->node].name : "";
        const size_t length = name[0] == '/' && mp_module_depth(name) > 0 ? mp_module_length(name, depth) : 0;
        size_t m = 0;
        while (m < t->n && (t->modules[m].length != length || strncmp(t->modules[m].name, name, length) != 0)) m++;
        if (m == t->n) t->modules[t->n++] = (mp_module_summary){.name = name, .length = length, .n_others = 1};
        t->modules[m].saved_bytes += row->saved_bytes;
        t->modules[m].parameter_bytes += row->parameter_bytes;
        t->modules[m].ticks += row->forward_ticks + row->backward_ticks;
    }
}

static bool is_repeated(const mp_module_summary *head, const mp_module_summary *next)
{
    return head->length && next->length && next->saved_bytes == head->saved_bytes && next->ticks == head->ticks &&
           next->parameter_bytes == head->parameter_bytes &&
           mp_module_is_next(head->last, head->last_length, next->name, next->length);
}

/* Merges successive equal modules into one row. */
static void fold(table *t)
{
    size_t left = 0;
    for (size_t k = 0; k < t->n; k++) {
        mp_module_summary head = t->modules[k];
        head.last = head.name;
        head.last_length = head.length;
        for (; k + 1 < t->n && is_repeated(&head, &t->modules[k + 1]); head.n_repeats++, k++) {
            head.last = t->modules[k + 1].name;
            head.last_length = t->modules[k + 1].length;
        }
        t->modules[left++] = head;
    }
    t->n = left;
}

static int by_rank(const void *a, const void *b)
{
    const mp_module_summary *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void sort_by(table *t, mp_summary_column column)
{
    for (size_t k = 0; k < t->n; k++) {
        mp_module_summary *m = &t->modules[k];
        m->rank = rank_of(column, m->saved_bytes, m->parameter_bytes, m->ticks) * (int64_t)(1 + m->n_repeats);
    }
    qsort(t->modules, t->n, sizeof *t->modules, by_rank);
}

/* Adds up the rows from index `rows` - 1 on in one row, so that `rows` rows remain. */
static void join_rest(table *t, size_t rows)
{
    mp_module_summary rest = {.name = ""};
    for (size_t k = rows - 1; k < t->n; k++) {
        const mp_module_summary *m = &t->modules[k];
        const int64_t n = 1 + (int64_t)m->n_repeats;
        rest.saved_bytes += n * m->saved_bytes;
        rest.parameter_bytes += n * m->parameter_bytes;
        rest.ticks += n * m->ticks;
        rest.n_others += 1 + m->n_repeats;
    }
    t->modules[rows - 1] = rest;
    t->n = rows;
}

mp_status mp_summary_modules(const mp_graph *graph, const mp_summary *summary, size_t most, mp_summary_column column,
                             mp_module_summary **out, size_t *n, mp_error *err)
{
    table t = {.graph = graph, .summary = summary, .modules = mp_alloc(summary->n_operators, sizeof *t.modules)};
    MP_ENSURE(t.modules, err, MP_NOMEM, "%zu operators", summary->n_operators);
    if (!most) sum_up(&t, 1);
    for (int depth = most ? DEPTH_MAX : 0; depth >= 1; depth--) {
        sum_up(&t, depth);
        fold(&t);
        if (t.n <= most) break;
    }
    const bool is_long = most && t.n > most;
    if (column != MP_SUMMARY_NETWORK || is_long) sort_by(&t, column == MP_SUMMARY_NETWORK ? MP_SUMMARY_KEPT : column);
    if (is_long) join_rest(&t, most);
    *out = t.modules;
    *n = t.n;
    return MP_OK;
}

char *mp_module_summary_title(const mp_module_summary *m, char *text, size_t size)
{
    char first[TITLE_MAX], last[TITLE_MAX];
    if (m->n_others > 1)
        snprintf(text, size, "%zu others", m->n_others);
    else if (!m->length)
        snprintf(text, size, "(no module)");
    else if (!m->n_repeats)
        mp_module_text(m->name, m->length, text, size);
    else
        snprintf(text, size, "%s - %s, each", mp_module_text(m->name, m->length, first, sizeof first),
                 mp_module_text(m->last, m->last_length, last, sizeof last));
    return text;
}

/* ---- operators ---- */

typedef struct ranked {
    const mp_operator_summary *row;
    const char *name;
    int64_t rank;
} ranked;

static int by_rank_and_name(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    const int names = strcmp(x->name, y->name);
    if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
    return names ? names : (x->row->node > y->row->node) - (x->row->node < y->row->node);
}

mp_status mp_summary_sorted(const mp_graph *graph, const mp_summary *summary, mp_summary_column column,
                            mp_operator_summary **out, mp_error *err)
{
    const size_t n = summary->n_operators;
    MP_OWNED ranked *rows = mp_alloc(n, sizeof *rows);
    MP_OWNED mp_operator_summary *sorted = mp_alloc(n, sizeof *sorted);
    MP_ENSURE(rows && sorted, err, MP_NOMEM, "%zu operators", n);
    for (size_t k = 0; k < n; k++) {
        const mp_operator_summary *row = &summary->operators[k];
        const char *name = graph->nodes[row->node].name;
        rows[k] = (ranked){.row = row, .name = name ? name : ""};
        rows[k].rank = rank_of(column, row->saved_bytes, row->parameter_bytes, row->forward_ticks + row->backward_ticks);
    }
    if (column != MP_SUMMARY_NETWORK) qsort(rows, n, sizeof *rows, by_rank_and_name);
    for (size_t k = 0; k < n; k++) sorted[k] = *rows[k].row;
    *out = sorted;
    sorted = NULL;
    return MP_OK;
}
