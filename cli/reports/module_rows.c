/* module_rows.c - adds up operators per module. The name of an operator contains the name of its module. */
#include "cli/reports/module_rows.h"

#include <stdlib.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/tensor_rows.h"
#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"
#include "formats/json/json.h"

enum { DEPTH_MAX = 3, TITLE_MAX = 512 };

typedef struct module {
    const char *name; /* name of the module's first operator; its first `length` bytes are the name of the module */
    size_t length;    /* length in bytes of the module's name; 0: the operator belongs to no module */
    /* number of following equal modules that are merged into this row; `last` is the name of the last of them */
    size_t repeats;
    const char *last;
    size_t last_length;
    size_t n_others; /* number of further modules that are added up in this row ("others") */
    int64_t saved_bytes, parameter_bytes, ticks;
    int64_t rank; /* number by which the rows are sorted, largest first */
} module;

typedef struct table {
    const mp_graph *graph;
    const mp_summary *summary;
    size_t n;
    module *modules;
    int64_t *parameters; /* per operator of the summary: bytes of the parameters that it reads */
} table;

mp_status operator_parameters(const mp_graph *graph, const mp_summary *summary, int64_t **bytes, mp_error *err)
{
    MP_OWNED int *row_of = mp_alloc(graph->n_nodes, sizeof *row_of);
    MP_OWNED int64_t *found = mp_alloc(summary->n_operators, sizeof *found);
    MP_ENSURE(row_of && found, err, MP_NOMEM, "%zu operators", summary->n_operators);
    for (size_t k = 0; k < graph->n_nodes; k++) row_of[k] = -1;
    for (size_t k = 0; k < summary->n_operators; k++) row_of[summary->operators[k].node] = (int)k;
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (graph->storages[s].kind != MP_KIND_PARAMETER) continue;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
            const int row = row_of[graph->readers[r]];
            if (row < 0) continue;
            found[row] += graph->storages[s].bytes;
            break;
        }
    }
    *bytes = found;
    found = NULL;
    return MP_OK;
}

static void sum_up(table *t, int depth)
{
    t->n = 0;
    for (size_t k = 0; k < t->summary->n_operators; k++) {
        const mp_operator_summary *row = &t->summary->operators[k];
        const char *name = t->graph->nodes[row->node].name ? t->graph->nodes[row->node].name : "";
        const size_t length = name[0] == '/' && mp_module_depth(name) > 0 ? mp_module_length(name, depth) : 0;
        size_t m = 0;
        while (m < t->n && (t->modules[m].length != length || strncmp(t->modules[m].name, name, length) != 0)) m++;
        if (m == t->n) t->modules[t->n++] = (module){.name = name, .length = length, .n_others = 1};
        t->modules[m].saved_bytes += row->saved_bytes;
        t->modules[m].parameter_bytes += t->parameters[k];
        t->modules[m].ticks += row->forward_ticks + row->backward_ticks;
    }
}

static bool is_repeated(const module *head, const module *next)
{
    return head->length && next->length && next->saved_bytes == head->saved_bytes && next->ticks == head->ticks &&
           next->parameter_bytes == head->parameter_bytes &&
           module_is_next(head->last, head->last_length, next->name, next->length);
}

/* Merges successive equal modules into one row. */
static void fold(table *t)
{
    size_t left = 0;
    for (size_t k = 0; k < t->n; k++) {
        module head = t->modules[k];
        head.last = head.name;
        head.last_length = head.length;
        for (; k + 1 < t->n && is_repeated(&head, &t->modules[k + 1]); head.repeats++, k++) {
            head.last = t->modules[k + 1].name;
            head.last_length = t->modules[k + 1].length;
        }
        t->modules[left++] = head;
    }
    t->n = left;
}

static int by_rank(const void *a, const void *b)
{
    const module *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
    return strcmp(x->name, y->name);
}

int64_t module_rank(const char *sort, int64_t saved_bytes, int64_t parameter_bytes, int64_t ticks)
{
    if (!strcmp(sort, "time")) return ticks;
    if (!strcmp(sort, "parameters")) return parameter_bytes;
    return !strcmp(sort, "kept") ? saved_bytes : 0;
}

static void sort_by(table *t, const char *sort)
{
    for (size_t k = 0; k < t->n; k++) {
        module *m = &t->modules[k];
        m->rank = module_rank(sort, m->saved_bytes, m->parameter_bytes, m->ticks) * (int64_t)(1 + m->repeats);
    }
    qsort(t->modules, t->n, sizeof *t->modules, by_rank);
}

/* Adds up the rows from index `rows` - 1 on in one row, so that `rows` rows remain. */
static void join_rest(table *t, size_t rows)
{
    module rest = {.name = ""};
    for (size_t k = rows - 1; k < t->n; k++) {
        const module *m = &t->modules[k];
        const int64_t n = 1 + (int64_t)m->repeats;
        rest.saved_bytes += n * m->saved_bytes;
        rest.parameter_bytes += n * m->parameter_bytes;
        rest.ticks += n * m->ticks;
        rest.n_others += 1 + m->repeats;
    }
    t->modules[rows - 1] = rest;
    t->n = rows;
}

static const char *title_of(const module *m)
{
    char first[TITLE_MAX], last[TITLE_MAX];
    if (m->n_others > 1) return mp_text("%zu others", m->n_others);
    if (!m->length) return "(no module)";
    mp_module_text(m->name, m->length, first, sizeof first);
    if (!m->repeats) return mp_text("%s", first);
    return mp_text("%s - %s, each", first, mp_module_text(m->last, m->last_length, last, sizeof last));
}

static mp_status make(table *t, const mp_graph *graph, const mp_summary *summary, mp_error *err)
{
    *t = (table){.graph = graph, .summary = summary, .modules = mp_alloc(summary->n_operators, sizeof *t->modules)};
    MP_ENSURE(t->modules, err, MP_NOMEM, "%zu operators", summary->n_operators);
    return operator_parameters(t->graph, t->summary, &t->parameters, err);
}

static void clear(table *t)
{
    mp_free(t->modules);
    mp_free(t->parameters);
}

mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, const char *sort, mp_error *err)
{
    MP_CLEARED_BY(clear) table t = {0};
    MP_CHECK(make(&t, graph, summary, err));
    for (int depth = DEPTH_MAX; depth >= 1; depth--) {
        sum_up(&t, depth);
        fold(&t);
        if (t.n <= rows) break;
    }
    if (t.n < 2 && !(t.n && t.modules[0].repeats)) return MP_OK;
    if (sort || t.n > rows) sort_by(&t, sort ? sort : "kept");
    if (t.n > rows) join_rest(&t, rows);
    screen_row("  %-30s %12s  %12s  %9s", "Modules", "kept", "parameters", "time");
    for (size_t k = 0; k < t.n; k++) {
        const module *m = &t.modules[k];
        screen_row("  %-30s %12s  %12s  %9s", title_of(m), mp_bytes_text(m->saved_bytes), mp_bytes_text(m->parameter_bytes),
                   seconds_text((double)m->ticks * graph->tick_seconds));
    }
    return MP_OK;
}

json_t *modules_json(const mp_graph *graph, const mp_summary *summary)
{
    MP_CLEARED_BY(clear) table t = {0};
    mp_error err = {0};
    if (make(&t, graph, summary, &err) != MP_OK) return NULL;
    json_t *list = json_array();
    sum_up(&t, 1);
    for (size_t k = 0; k < t.n; k++) {
        const module *m = &t.modules[k];
        mp_json_append(&list, json_pack("{s:o, s:I, s:I, s:f}", "module", mp_json_text(title_of(m)), "saved_bytes",
                                        (json_int_t)m->saved_bytes, "parameter_bytes", (json_int_t)m->parameter_bytes,
                                        "seconds", (double)m->ticks * graph->tick_seconds));
    }
    return list;
}
