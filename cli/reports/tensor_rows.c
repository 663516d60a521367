/* tensor_rows.c - groups tensors by module, and merges successive groups whose names differ only in a number. */
#include "cli/reports/tensor_rows.h"

#include <string.h>

#include "cli/messages/print.h"
#include "cli/messages/screen.h"
#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"
#include "formats/base/text.h"

enum { DEPTH_MAX = 4, NAMED = 4, LIST_GROUPS = 32 };

/* The tensors of one module. */
typedef struct group {
    size_t module; /* length in bytes of the module's name within the names of its tensors */
    size_t first;  /* index in `order` of the first tensor of the group */
    size_t n;
    size_t repeats; /* number of following equal groups that are merged into the same row */
} group;

typedef struct grouping {
    const char *const *names;
    size_t n_names, n;
    group *groups;
    size_t *order; /* the tensors as indices of `names`, sorted by group */
    bool *taken;
} grouping;

/* Returns the length in bytes of the module's name within a tensor's name, for modules of at most this depth; only names that
 * begin with a slash contain modules. */
static size_t module_length(const char *name, int depth)
{
    return name[0] == '/' ? mp_module_length(name, depth) : 0;
}

static const char *name_at(const grouping *g, size_t k)
{
    return g->names[g->order[k]];
}

static void find_groups(grouping *g, int depth)
{
    size_t at = 0;
    g->n = 0;
    memset(g->taken, 0, g->n_names * sizeof *g->taken);
    for (size_t k = 0; k < g->n_names; k++) {
        if (g->taken[k]) continue;
        group *row = &g->groups[g->n++];
        *row = (group){.module = module_length(g->names[k], depth), .first = at};
        for (size_t j = k; j < g->n_names; j++) {
            if (g->taken[j] || module_length(g->names[j], depth) != row->module ||
                strncmp(g->names[j], g->names[k], row->module) != 0)
                continue;
            g->taken[j] = true;
            g->order[at++] = j;
            row->n++;
        }
    }
}

/* True if group b continues the sequence of group `last`: the number in its name is one larger, and its tensors are the same as
 * those of group a. */
static bool repeats(const grouping *g, const group *a, const group *last, const group *b)
{
    if (a->n != b->n || !a->module || !b->module) return false;
    if (!mp_module_is_next(name_at(g, last->first), last->module, name_at(g, b->first), b->module)) return false;
    for (size_t k = 0; k < a->n; k++)
        if (strcmp(name_at(g, a->first + k) + a->module, name_at(g, b->first + k) + b->module) != 0) return false;
    return true;
}

/* Merges each group that repeats the group before it into that group. Returns the number of groups that remain. */
static size_t fold(grouping *g)
{
    size_t left = 0;
    for (size_t k = 0; k < g->n; k++) {
        group *head = &g->groups[k];
        head->repeats = 0;
        while (k + 1 < g->n && repeats(g, head, &g->groups[k], &g->groups[k + 1])) {
            head->repeats++;
            k++;
        }
        left++;
    }
    return left;
}

/* Returns the name of a tensor within its module. The exporter's suffix "_output_0" is omitted. */
static const char *leaf_of(const char *leaf)
{
    static const char tail[] = "_output_0";
    while (*leaf == '/') leaf++;
    size_t n = strlen(leaf);
    if (n >= sizeof tail && !strcmp(leaf + n - sizeof tail + 1, tail)) n -= sizeof tail - 1;
    return mp_text("%.*s", (int)n, leaf);
}

static const char *module_of(const grouping *g, const group *row)
{
    char text[96];
    return row->module ? mp_text("%s", mp_module_text(name_at(g, row->first), row->module, text, sizeof text)) : "(no module)";
}

/* Returns the title of a row: the name of one module, or of a range of modules such as "h.0 - h.18". */
static const char *title_of(const grouping *g, const group *row)
{
    if (!row->repeats) return module_of(g, row);
    return mp_text("%s - %s", module_of(g, row), module_of(g, row + row->repeats));
}

static void print_group(const grouping *g, const group *row, int width)
{
    const char *leaves = "";
    for (size_t k = 0; k < row->n && k < NAMED; k++)
        leaves = mp_text("%s%s%s", leaves, k ? ", " : "", leaf_of(name_at(g, row->first + k) + row->module));
    screen_list("  %-*s  %3zu%s  %s%s", width, title_of(g, row), row->n, row->repeats ? " each" : "", leaves,
                row->n > NAMED ? ", ..." : "");
}

static int width_of(const grouping *g, size_t rows)
{
    enum { WIDEST = 30 };
    int widest = 0;
    for (size_t k = 0, row = 0; k < g->n && row < rows; k += 1 + g->groups[k].repeats, row++) {
        const int n = (int)strlen(title_of(g, &g->groups[k]));
        if (n > widest) widest = n;
    }
    return widest < WIDEST ? widest : WIDEST;
}

static void print_folded(const grouping *g, size_t rows, size_t left)
{
    const size_t shown = left > rows ? rows - 1 : left;
    const int width = width_of(g, shown);
    size_t k = 0, listed = 0, tensors = 0;
    for (; k < g->n && listed < shown; k += 1 + g->groups[k].repeats, listed++) {
        print_group(g, &g->groups[k], width);
        tensors += g->groups[k].n * (1 + g->groups[k].repeats);
    }
    if (left > rows) screen_list("  ... and %zu more in %zu modules", g->n_names - tensors, g->n - k);
}

static void print_list(const grouping *g)
{
    for (size_t k = 0; k < g->n; k++) {
        const group *row = &g->groups[k];
        if (g->n > 1 || row->module) print("  %s\n", module_of(g, row));
        for (size_t j = 0; j < row->n; j++) print("    %s\n", name_at(g, row->first + j));
    }
}

mp_status report_tensors(const char *const *names, size_t n, size_t rows, bool list, mp_error *err)
{
    grouping g = {.names = names, .n_names = n};
    size_t left = 0;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    g.groups = mp_pool_alloc(pool, n, sizeof *g.groups);
    g.order = mp_pool_alloc(pool, n, sizeof *g.order);
    g.taken = mp_pool_alloc(pool, n, sizeof *g.taken);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "%zu names", n);
    for (int depth = DEPTH_MAX; depth >= 1; depth--) {
        find_groups(&g, depth);
        left = fold(&g);
        if ((list ? g.n <= LIST_GROUPS : left <= rows)) break;
    }
    if (list)
        print_list(&g);
    else
        print_folded(&g, rows, left);
    return MP_OK;
}
