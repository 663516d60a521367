/* graph_blocks.c - divides the list of forward nodes into blocks by module. Folds repeated or neighbouring blocks into one. */
#include "formats/drawings/graph_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"

enum {
    LEVELS_MAX = 64,  /* maximum number of module levels in a name; deeper levels are ignored */
    FEW = 12,         /* if the expanded levels give fewer blocks than this, one more level is expanded and then folded */
    TITLE_MAX = 24,   /* maximum length of a title in bytes; if a module name is longer, its outer modules are omitted */
    PERIOD_MAX = 128, /* maximum number of blocks in a repeated pattern; longer patterns are not found */
    TOGETHER_MAX = 8  /* maximum number of modules in a sequence of modules that repeats */
};

typedef struct builder {
    const mp_graph *graph;
    mp_graph_blocks *out;
    mp_error *err;
} builder;

static const char *name_of(const builder *b, size_t k)
{
    return b->graph->nodes[b->out->nodes[k]].name;
}

static mp_status list_nodes(builder *b)
{
    const mp_graph *graph = b->graph;
    mp_graph_blocks *out = b->out;
    out->nodes = mp_pool_alloc(out->pool, graph->n_nodes, sizeof *out->nodes);
    out->block_of = mp_pool_alloc(out->pool, graph->n_nodes, sizeof *out->block_of);
    out->blocks = mp_pool_alloc(out->pool, graph->n_nodes, sizeof *out->blocks);
    if (!out->nodes || !out->block_of || !out->blocks) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < graph->n_nodes; k++) {
        mp_phase phase = graph->nodes[k].phase;
        out->block_of[k] = -1;
        if (mp_copy_way_of(graph, (int)k, 0) != MP_COPY_NONE)
            continue; /* nodes that copy tensors are not operators of the picture; the fate of a tensor shows that it is copied
                       */
        if (phase == MP_PHASE_FORWARD || phase == MP_PHASE_LOSS) out->nodes[out->n_nodes++] = (int)k;
    }
    return MP_OK;
}

/* ---- modules ---- */

/* True if node k of the list is in the same module as the node before it, down to this depth. A node with fewer module
 * levels is a block of its own. */
static bool joins(const builder *b, size_t k, int depth)
{
    const char *name = name_of(b, k), *before = name_of(b, k - 1);
    if (mp_module_depth(name) < depth || mp_module_depth(before) < depth) return false;
    size_t length = mp_module_length(name, depth);
    return length == mp_module_length(before, depth) && !strncmp(name, before, length);
}

static size_t count_blocks(const builder *b, int depth)
{
    size_t n = b->out->n_nodes > 0;
    for (size_t k = 1; k < b->out->n_nodes; k++) n += !joins(b, k, depth);
    return n;
}

static void cut_blocks(builder *b, int depth)
{
    mp_graph_blocks *out = b->out;
    out->n = 0;
    for (size_t k = 0; k < out->n_nodes; k++) {
        if (k == 0 || !joins(b, k, depth)) out->blocks[out->n++] = (mp_graph_block){.first = k, .n_parts = 1, .depth = depth};
        out->blocks[out->n - 1].n++;
    }
}

/* ---- folding ---- */

/* Hashes the operators of a block without their names. With `sizes`, the sizes of the block's results are included. */
static uint64_t signature(const builder *b, const mp_graph_block *block, bool sizes)
{
    static const uint64_t prime = 1099511628211u;
    uint64_t hash = 14695981039346656037u; /* start value of the FNV-1a hash */
    for (size_t k = 0; k < block->n; k++) {
        const mp_node *node = &b->graph->nodes[b->out->nodes[block->first + k]];
        const mp_alternative *alternative = &node->alternatives[0];
        for (const char *at = node->op;; at++) {
            hash = (hash ^ (unsigned char)*at) * prime;
            if (!*at) break;
        }
        for (size_t i = 0; sizes && i < alternative->n_writes; i++)
            for (uint64_t bytes = (uint64_t)b->graph->storages[alternative->writes[i]].bytes, n = 0; n < 8; n++, bytes >>= 8)
                hash = (hash ^ (bytes & 0xFF)) * prime;
    }
    return hash;
}

/* True if two neighbouring blocks are siblings: they have the same parent module, so they may be folded. */
static bool siblings(const builder *b, size_t block, int depth)
{
    const char *name = name_of(b, b->out->blocks[block].first), *before = name_of(b, b->out->blocks[block - 1].first);
    size_t length = mp_module_length(name, depth - 1);
    return length == mp_module_length(before, depth - 1) && !strncmp(name, before, length);
}

/* Returns how often the `period` blocks that start at `at` repeat within the siblings [at, end). */
static size_t repeats_at(const builder *b, const uint64_t *signatures, size_t at, size_t end, size_t period)
{
    size_t n = 1;
    for (size_t k = at; k < at + period; k++)
        if (k >= end || b->out->blocks[k].n < 2) return 1; /* if only a single operator repeats, it is not folded */
    while (at + (n + 1) * period <= end && !memcmp(signatures + at, signatures + at + n * period, period * sizeof *signatures))
        n++;
    return n;
}

/* Folds repeated modules into one block per module. If a group of modules repeats as a whole, the group becomes one block. */
static mp_status fold_repeats(builder *b, int depth)
{
    mp_graph_blocks *out = b->out;
    size_t n = 0, end = 0;
    MP_OWNED uint64_t *signatures = mp_alloc(out->n, sizeof *signatures);
    if (!signatures) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < out->n; k++) signatures[k] = signature(b, &out->blocks[k], true);
    for (size_t at = 0, taken; at < out->n; at += taken) {
        size_t repeats = 1, period = 1;
        if (at >= end)
            for (end = at + 1; end < out->n && siblings(b, end, depth); end++) continue;
        for (size_t p = 1; p <= TOGETHER_MAX; p++) {
            const size_t r = repeats_at(b, signatures, at, end, p);
            if (r > 1 && r * p > repeats * period) repeats = r, period = p;
        }
        taken = repeats * period;
        mp_graph_block block = out->blocks[at];
        for (size_t k = 1; k < taken; k++) block.n += out->blocks[at + k].n;
        if (repeats > 1) block.n_parts = taken, block.repeats = repeats;
        out->blocks[n++] = block;
    }
    out->n = n;
    return MP_OK;
}

/* Returns the shortest period that nine tenths of a sequence follow; 1: there is no period. */
static size_t period_of(const uint64_t *signatures, size_t n)
{
    for (size_t p = 1; p <= PERIOD_MAX && 2 * p <= n; p++) {
        size_t equal = 0;
        for (size_t k = 0; k + p < n; k++) equal += signatures[k] == signatures[k + p];
        if (10 * equal >= 9 * (n - p)) return p;
    }
    return 1;
}

/* A run of n neighbouring siblings that repeat a pattern of `period` siblings. */
typedef struct run {
    size_t n, period;
} run;

static size_t fold_of(const run *r, size_t least)
{
    return (least + r->period - 1) / r->period * r->period;
}

static size_t count_folded(const run *runs, size_t n_runs, size_t least)
{
    size_t n = 0;
    for (size_t k = 0; k < n_runs; k++) n += (runs[k].n + fold_of(&runs[k], least) - 1) / fold_of(&runs[k], least);
    return n;
}

/* Folds neighbouring siblings into one block each until at most `most` blocks remain, or no blocks can be folded. Every
 * block gets about the same number of siblings. */
static mp_status fold_blocks(builder *b, int depth, size_t most)
{
    mp_graph_blocks *out = b->out;
    size_t n_runs = 0, n = 0, at = 0, least = 1;
    MP_OWNED uint64_t *signatures = mp_alloc(out->n, sizeof *signatures);
    MP_OWNED run *runs = mp_alloc(out->n, sizeof *runs);
    if (!signatures || !runs) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < out->n; k++) {
        if (k == 0 || !siblings(b, k, depth)) n_runs++;
        runs[n_runs - 1].n++;
        signatures[k] = signature(b, &out->blocks[k], false);
    }
    for (size_t k = 0; k < n_runs; k++) {
        runs[k].period = period_of(signatures + at, runs[k].n);
        at += runs[k].n;
    }
    while (count_folded(runs, n_runs, least) > most && least < out->n) least += 1 + least / 16;
    at = 0;
    for (size_t k = 0; k < n_runs; k++) {
        size_t fold = fold_of(&runs[k], least);
        for (size_t i = 0; i < runs[k].n; i++, at++) {
            mp_graph_block block = out->blocks[at];
            if (i % fold == 0) {
                out->blocks[n++] = block;
            } else {
                out->blocks[n - 1].n += block.n;
                out->blocks[n - 1].n_parts += block.n_parts;
                out->blocks[n - 1].repeats = 0;
            }
        }
    }
    out->n = n;
    return MP_OK;
}

/* Expands the modules down to `depth`; depth 0: as deeply as `most` blocks permit. If these levels give too few blocks, one
 * more level is expanded and then folded. */
static mp_status cut_and_fold(builder *b, int depth, size_t most)
{
    int deepest = 1; /* at this depth every node is a block of its own */
    for (size_t k = 0; k < b->out->n_nodes; k++) {
        int levels = mp_module_depth(name_of(b, k)) + 1;
        if (levels > deepest) deepest = levels < LEVELS_MAX ? levels : LEVELS_MAX;
    }
    if (depth > 0) {
        cut_blocks(b, depth);
        return MP_OK;
    }
    for (depth = deepest; depth > 1 && count_blocks(b, depth) > most;) depth--;
    size_t n = count_blocks(b, depth);
    if (n < FEW && depth < deepest) {
        cut_blocks(b, depth + 1);
        MP_CHECK(fold_repeats(b, depth + 1));
        if (b->out->n > most) MP_CHECK(fold_blocks(b, depth + 1, most));
        if (b->out->n >= n && b->out->n <= most) return MP_OK;
    }
    cut_blocks(b, depth);
    MP_CHECK(fold_repeats(b, depth));
    if (b->out->n > most) MP_CHECK(fold_blocks(b, depth, most));
    return MP_OK;
}

/* ---- names ---- */

/* Returns the title of a block with one operator: the operator type; if it is unknown, the name; if there is no name, the
 * number. */
static const char *operator_title(const builder *b, size_t k, mp_label *number)
{
    const mp_node *node = &b->graph->nodes[b->out->nodes[k]];
    if (*node->op) return node->op;
    if (*node->name) return mp_module_leaf(node->name);
    *number = mp_node_label(b->graph, b->out->nodes[k]);
    return number->text;
}

/* Returns the title of the first or the last of the blocks from which a block was folded. */
static const char *end_title(const builder *b, size_t k, int depth, char *text)
{
    const char *name = name_of(b, k);
    mp_label label;
    if (mp_module_depth(name) < depth)
        snprintf(text, MP_BLOCK_TEXT, "%s", *name ? mp_module_leaf(name) : operator_title(b, k, &label));
    else
        mp_module_text(name, mp_module_length(name, depth), text, MP_BLOCK_TEXT);
    return text;
}

static mp_status name_block(builder *b, mp_graph_block *block)
{
    const char *name = name_of(b, block->first), *last = name_of(b, block->first + block->n - 1);
    char from[MP_BLOCK_TEXT], to[MP_BLOCK_TEXT];
    mp_label label;
    mp_pool *pool = b->out->pool;
    if (block->n == 1) {
        const char *kind = operator_title(b, block->first, &label);
        size_t module = mp_module_length(name, LEVELS_MAX);
        block->title = mp_pool_text(pool, kind, strlen(kind));
        if (module)
            mp_module_text(name, module, from, sizeof from);
        else if (b->graph->nodes[b->out->nodes[block->first]].phase == MP_PHASE_LOSS)
            snprintf(from, sizeof from, "loss");
        else
            snprintf(from, sizeof from, "%s", !strcmp(kind, mp_module_leaf(name)) ? "" : mp_module_leaf(name));
        block->subtitle = mp_pool_text(pool, from, strlen(from));
    } else if (block->n_parts == 1) {
        size_t outer = 0, length = mp_module_length(name, block->depth);
        for (int k = 1;
             mp_module_text(name + outer, length - outer, from, sizeof from) && strlen(from) > TITLE_MAX && k < block->depth;
             k++)
            outer = mp_module_length(name, k);
        block->title = mp_pool_text(pool, from, strlen(from));
        block->subtitle = mp_pool_format(pool, "%zu operators", block->n);
    } else {
        const size_t times = block->repeats ? block->repeats : 1;
        end_title(b, block->first, block->depth, from);
        end_title(b, block->first + block->n - 1, block->depth, to);
        block->title = mp_pool_format(pool, "%s \xe2\x80\x93 %s", from, mp_module_depth(last) ? mp_module_leaf(to) : to);
        if (times > 1 && block->n_parts == times)
            block->subtitle = mp_pool_format(pool, "%zu \xc3\x97 %zu operators", times, block->n / times);
        else if (times > 1)
            block->subtitle =
                mp_pool_format(pool, "%zu \xc3\x97 %zu blocks, %zu operators", times, block->n_parts / times, block->n / times);
        else
            block->subtitle = block->n == block->n_parts
                                  ? mp_pool_format(pool, "%zu operators", block->n)
                                  : mp_pool_format(pool, "%zu blocks, %zu operators", block->n_parts, block->n);
    }
    return block->title && block->subtitle ? MP_OK : MP_NO_MEMORY(b->err);
}

/* ---- edges ---- */

static int by_ends(const void *a, const void *b)
{
    const mp_block_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Finds the edges between blocks. A reader is connected with the last block before it that wrote the storage.
 * (graph->producer does not suffice: it has no entries for static storages, such as outputs that the user requested.) */
static mp_status find_edges(builder *b)
{
    mp_graph_blocks *out = b->out;
    const mp_graph *graph = b->graph;
    MP_OWNED mp_block_edge *edges = NULL;
    size_t n = 0, capacity = 0;
    MP_OWNED int *writer =
        mp_alloc(graph->n_storages, sizeof *writer); /* per storage: 1 + index of the last block that wrote it; 0: none */
    if (!writer) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < out->n_nodes; k++) {
        const mp_alternative *alternative = &graph->nodes[out->nodes[k]].alternatives[0];
        int to = out->block_of[out->nodes[k]];
        for (size_t i = 0; i < alternative->n_reads; i++) {
            int from = writer[alternative->reads[i]] - 1;
            if (from < 0 || from == to) continue;
            if (!mp_grow(&edges, &capacity, n + 1, sizeof *edges)) return MP_NO_MEMORY(b->err);
            edges[n++] = (mp_block_edge){from, to};
        }
        for (size_t i = 0; i < alternative->n_writes; i++) writer[alternative->writes[i]] = to + 1;
    }
    if (n) qsort(edges, n, sizeof *edges, by_ends);
    out->edges = mp_pool_alloc(out->pool, n, sizeof *edges);
    if (!out->edges) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < n; k++)
        if (k == 0 || by_ends(&edges[k - 1], &edges[k])) out->edges[out->n_edges++] = edges[k];
    return MP_OK;
}

void mp_graph_blocks_free(mp_graph_blocks *blocks)
{
    if (!blocks) return;
    mp_pool_free(blocks->pool);
    mp_free(blocks);
}

mp_status mp_graph_blocks_build(const mp_graph *graph, int depth, size_t most, mp_graph_blocks **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_blocks_free) mp_graph_blocks *blocks = mp_alloc(1, sizeof *blocks);
    builder b = {.graph = graph, .out = blocks, .err = err};
    if (!blocks || !(blocks->pool = mp_pool_new())) return MP_NO_MEMORY(err);
    MP_CHECK(list_nodes(&b));
    MP_CHECK(cut_and_fold(&b, depth, most));
    for (size_t k = 0; k < blocks->n; k++) {
        mp_graph_block *block = &blocks->blocks[k];
        MP_CHECK(name_block(&b, block));
        for (size_t i = 0; i < block->n; i++) blocks->block_of[blocks->nodes[block->first + i]] = (int)k;
    }
    MP_CHECK(find_edges(&b));
    *out = blocks;
    blocks = NULL;
    return MP_OK;
}
