/* module_tree.c - finds the modules of a network and their calls from the names of nodes, one nesting level after the other. */
#include "planner/segments/module_tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"
#include "estimator/base/names.h"

enum { DEEPEST = 32, TEXT = 512 }; /* DEEPEST: largest depth of nested modules. TEXT: largest length of a name in bytes */

typedef struct builder {
    mp_modules *out;
    mp_names *seen;    /* names of all modules, spelled as in the model file */
    mp_names *owners;  /* all prefixes of parameter names that end before a dot: "layers.0" for "layers.0.weight" */
    mp_names *modules; /* maps the name of a module to its index */
    mp_names *calls;   /* maps the name of a module, as the model file spells it, to the index of its call */
    size_t capacity, calls_capacity;
    mp_module *found;
    mp_module_call *found_calls;
    mp_error *err;
} builder;

static bool remember(builder *b, mp_names *names, const char *text, size_t length, int value)
{
    const char *copy = mp_pool_text(b->out->pool, text, length);
    return copy && mp_names_set(names, copy, value);
}

/* Returns the name of the module that contains a node at this nesting depth, spelled as in the model file. */
static const char *text_at(const char *name, int depth, char text[TEXT])
{
    return mp_module_text(name, mp_module_length(name, depth), text, TEXT);
}

static int depth_of(const char *name)
{
    const int depth = mp_module_depth(name);
    return depth < DEEPEST ? depth : DEEPEST;
}

static mp_status collect_names(builder *b)
{
    char text[TEXT];
    const mp_graph *graph = b->out->graph;
    for (int p = 0; p < b->out->n_positions; p++) {
        const char *name = graph->nodes[b->out->node[p]].name;
        for (int d = 1; d <= depth_of(name); d++)
            if (mp_names_find(b->seen, text_at(name, d, text)) < 0 && !remember(b, b->seen, text, strlen(text), 1))
                return MP_NO_MEMORY(b->err);
    }
    for (size_t s = 0; s < graph->n_storages; s++) {
        const mp_storage *storage = &graph->storages[s];
        if (storage->kind != MP_KIND_PARAMETER) continue;
        for (const char *dot = strchr(storage->name, '.'); dot; dot = strchr(dot + 1, '.'))
            if (!remember(b, b->owners, storage->name, (size_t)(dot - storage->name), 1)) return MP_NO_MEMORY(b->err);
    }
    return MP_OK;
}

/* Removes a number such as "_1" from the end of a module's name if it only numbers a further call of the module. `text` is the
 * name as spelled in the model file. */
static void cut_number(const builder *b, char *name, const char *text)
{
    char base[TEXT];
    size_t n = strlen(text), digits = 0;
    while (digits < n && isdigit((unsigned char)text[n - 1 - digits])) digits++;
    if (!digits || digits + 1 >= n || text[n - 1 - digits] != '_') return;
    memcpy(base, text, n - 1 - digits);
    base[n - 1 - digits] = '\0';
    if (mp_names_find(b->seen, base) < 0 || mp_names_find(b->owners, name) >= 0) return;
    name[strlen(name) - 1 - digits] = '\0';
}

static mp_status find_module(builder *b, const char *name, int parent, int *module)
{
    mp_modules *out = b->out;
    *module = mp_names_find(b->modules, name);
    if (*module >= 0) return MP_OK;
    const char *copy = mp_pool_text(out->pool, name, strlen(name));
    if (!copy || !mp_grow(&b->found, &b->capacity, (size_t)out->n + 1, sizeof *b->found) ||
        !mp_names_set(b->modules, copy, out->n))
        return MP_NO_MEMORY(b->err);
    b->found[ *module = out->n++] = (mp_module){.name = copy, .parent = parent};
    return MP_OK;
}

/* Extends the call of a module by a position of the forward list. Creates the call if there is none. */
static mp_status extend_call(builder *b, const char *text, int module, int position)
{
    mp_modules *out = b->out;
    const int call = mp_names_find(b->calls, text);
    if (call >= 0) {
        if (b->found_calls[call].end < position) b->found[module].is_split = true;
        b->found_calls[call].end = position + 1;
        return MP_OK;
    }
    if (!mp_grow(&b->found_calls, &b->calls_capacity, (size_t)out->n_calls + 1, sizeof *b->found_calls) ||
        !remember(b, b->calls, text, strlen(text), out->n_calls))
        return MP_NO_MEMORY(b->err);
    b->found_calls[out->n_calls++] = (mp_module_call){module, position, position + 1, position};
    return MP_OK;
}

static mp_status take_position(builder *b, int position)
{
    const char *node = b->out->graph->nodes[b->out->node[position]].name;
    char text[TEXT], name[2 * TEXT] = "";
    size_t outer = 0;
    int module = -1;
    for (int d = 1; d <= depth_of(node); d++) {
        text_at(node, d, text);
        if (strlen(text) <= outer || strlen(text) + 1 >= TEXT) break;
        strncat(name, text + outer, TEXT - 1);
        cut_number(b, name, text);
        outer = strlen(text);
        MP_CHECK(find_module(b, name, module, &module));
        MP_CHECK(extend_call(b, text, module, position));
    }
    return MP_OK;
}

/* ---- selection of modules ---- */

static int by_position(const void *a, const void *b)
{
    const mp_module_call *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    return (x->module > y->module) - (x->module < y->module);
}

/* True if the module and its parent have one call each, and both calls contain the same nodes. */
static bool is_its_parent(const builder *b, const int *first_call, int module)
{
    const int parent = b->found[module].parent;
    if (parent < 0 || b->found[module].n_calls > 1 || b->found[parent].n_calls > 1) return false;
    const mp_module_call *call = &b->found_calls[first_call[module]], *outer = &b->found_calls[first_call[parent]];
    return outer->first == call->first && outer->end == call->end;
}

static mp_status renumber_modules(builder *b)
{
    mp_modules *out = b->out;
    int n = 0, n_calls = 0;
    MP_OWNED int *new_of = mp_alloc((size_t)out->n, sizeof *new_of), *first_call = mp_alloc((size_t)out->n, sizeof *first_call);
    MP_OWNED bool *is_double = mp_alloc((size_t)out->n, sizeof *is_double);
    out->modules = mp_pool_alloc(out->pool, (size_t)out->n, sizeof *out->modules);
    out->calls = mp_pool_alloc(out->pool, (size_t)out->n_calls, sizeof *out->calls);
    if (!new_of || !first_call || !is_double || !out->modules || !out->calls) return MP_NO_MEMORY(b->err);
    for (int k = 0; k < out->n_calls; k++)
        if (!b->found[b->found_calls[k].module].n_calls++) first_call[b->found_calls[k].module] = k;
    for (int m = 0; m < out->n; m++) {
        is_double[m] = is_its_parent(b, first_call, m);
        const int parent = b->found[m].parent < 0 ? -1 : new_of[b->found[m].parent];
        new_of[m] = is_double[m] ? parent : n;
        if (is_double[m]) continue;
        out->modules[n] = b->found[m];
        out->modules[n++].parent = parent;
    }
    for (int k = 0; k < out->n_calls; k++)
        if (!is_double[b->found_calls[k].module]) {
            out->calls[n_calls] = b->found_calls[k];
            out->calls[n_calls++].module = new_of[b->found_calls[k].module];
        }
    out->n = n;
    out->n_calls = n_calls;
    if (n_calls) qsort(out->calls, (size_t)n_calls, sizeof *out->calls, by_position);
    return MP_OK;
}

/* Sets again_end of each call. A recomputation ends after the last operator whose result backward reads. If backward reads an
 * input of an operator, the recomputation ends before the operator. */
static mp_status find_ends(builder *b)
{
    const mp_modules *out = b->out;
    const mp_graph *graph = out->graph;
    MP_OWNED int *reach =
        /* per position in the forward list: the position up to which a recomputation must run for the backward of this node */
        mp_alloc((size_t)out->n_positions, sizeof *reach);
    MP_OWNED int *position = mp_alloc(graph->n_nodes, sizeof *position);
    if (!reach || !position) return MP_NO_MEMORY(b->err);
    for (int p = 0; p < out->n_positions; p++) position[out->node[p]] = p;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        const int f = node->forward_of;
        if (node->phase != MP_PHASE_BACKWARD || f < 0 || graph->nodes[f].phase != MP_PHASE_FORWARD) continue;
        for (size_t k = 0; k < node->alternatives[0].n_reads; k++) {
            const int s = node->alternatives[0].reads[k];
            const bool is_saved = mp_module_is_saved(&graph->storages[s]), is_own = graph->producer[s] == f;
            if (is_saved && reach[position[f]] < position[f] + is_own) reach[position[f]] = position[f] + is_own;
        }
    }
    for (int k = 0; k < out->n_calls; k++)
        for (int p = out->calls[k].first; p < out->calls[k].end; p++)
            if (reach[p] > out->calls[k].again_end) out->calls[k].again_end = reach[p];
    return MP_OK;
}

bool mp_module_is_saved(const mp_storage *storage)
{
    return storage->kind != MP_KIND_GRADIENT && storage->kind != MP_KIND_ACTIVATION_GRADIENT;
}

static void clear(builder *b)
{
    mp_names_free(b->seen);
    mp_names_free(b->owners);
    mp_names_free(b->modules);
    mp_names_free(b->calls);
    mp_free(b->found);
    mp_free(b->found_calls);
    mp_modules_free(b->out);
}

mp_status mp_modules_new(const mp_graph *graph, mp_modules **out, mp_error *err)
{
    MP_CLEARED_BY(clear) builder b = {.out = mp_alloc(1, sizeof *b.out), .err = err};
    if (b.out) b.out->pool = mp_pool_new();
    if (b.out && b.out->pool) b.out->node = mp_pool_alloc(b.out->pool, graph->n_nodes, sizeof *b.out->node);
    b.seen = mp_names_new();
    b.owners = mp_names_new();
    b.modules = mp_names_new();
    b.calls = mp_names_new();
    MP_ENSURE(b.out && b.out->node && b.seen && b.owners && b.modules && b.calls, err, MP_NOMEM, "out of memory");
    b.out->graph = graph;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase == MP_PHASE_FORWARD) b.out->node[b.out->n_positions++] = (int)v;
    MP_CHECK(collect_names(&b));
    for (int p = 0; p < b.out->n_positions; p++) MP_CHECK(take_position(&b, p));
    MP_CHECK(renumber_modules(&b));
    MP_CHECK(find_ends(&b));
    *out = b.out;
    b.out = NULL;
    return MP_OK;
}

void mp_modules_free(mp_modules *modules)
{
    if (!modules) return;
    mp_pool_free(modules->pool);
    mp_free(modules);
}

static bool is_in(const mp_modules *modules, int a, int b)
{
    while (a > b) a = modules->modules[a].parent; /* the index of a parent is smaller than the indices of its children */
    return a == b;
}

bool mp_modules_related(const mp_modules *modules, int a, int b)
{
    return is_in(modules, a, b) || is_in(modules, b, a);
}
