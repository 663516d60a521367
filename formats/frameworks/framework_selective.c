/* framework_selective.c - settings for PyTorch's selective checkpointing. The first blocks of a network are recomputed, but the
 * results of some of their products (convolutions, matrix products, attention) are kept. A policy is a Python function that
 * identifies products by number, because PyTorch calls them in the order of the file. All subsets of the most expensive
 * products are tried as kept products. For each subset, the smallest number of recomputed blocks that fits the budget is
 * determined.
 */
#include "formats/frameworks/framework.h"

#include <string.h>

#include "estimator/base/memory.h"

/* maximum number of products of a block that are numbered; maximum number of these that are tried as kept products */
enum { PRODUCTS = 64, TRIED = 8 };

typedef struct selective {
    const mp_module_blocks *blocks;
    const mp_graph *graph;
    int n_products, first[PRODUCTS]; /* number of products in a block; per product: its node in the first block */
    /* number of products (convolutions, matrix products, attention) that may be kept, and their indices */
    int n_tried, tried[TRIED];
    int *number; /* per node: index of the product within its block; -1: the node is no product */
    bool *kept;  /* per node: true if its result is kept, so that the node is not recomputed */
} selective;

/* The best subset of kept products so far. */
typedef struct found {
    int k;
    unsigned set;
    int64_t peak_bytes, ticks, smallest_bytes;
} found;

static void find_products(selective *s)
{
    const mp_modules *m = s->blocks->modules;
    for (size_t v = 0; v < s->graph->n_nodes; v++) s->number[v] = -1;
    for (int k = 0; k < m->n_calls; k++) {
        int n = 0;
        for (int i = 0; i < s->blocks->n; i++) {
            if (s->blocks->module[i] != m->calls[k].module) continue;
            for (int p = m->calls[k].first; p < m->calls[k].end; p++)
                if (s->graph->nodes[m->node[p]].flops > 0 && n < PRODUCTS) {
                    if (i == 0) s->first[s->n_products++] = m->node[p];
                    s->number[m->node[p]] = n++;
                }
        }
    }
}

/* True if a product also writes copies of its operands, because PyTorch writes these copies again when it recomputes the block.
 * Small additional outputs of attention are ignored. */
static bool writes_copies(const mp_graph *graph, const mp_node *node)
{
    const mp_alternative *base = node->alternatives;
    int64_t all = 0, most = 0;
    for (size_t k = 0; k < base->n_writes; k++) {
        const int64_t bytes = graph->storages[base->writes[k]].bytes;
        all += bytes;
        if (bytes > most) most = bytes;
    }
    return all - most > most / 4;
}

/* Chooses the most expensive products (convolutions, matrix products, attention), whose results may be kept. */
static void choose_tried(selective *s)
{
    for (; s->n_tried < TRIED; s->n_tried++) {
        int best = -1;
        int64_t most = 0;
        for (int n = 0; n < s->n_products; n++) {
            const mp_node *node = &s->graph->nodes[s->first[n]];
            bool is_in = writes_copies(s->graph, node);
            for (int t = 0; t < s->n_tried; t++) is_in |= s->tried[t] == n;
            if (is_in || node->alternatives->ticks <= most) continue;
            most = node->alternatives->ticks;
            best = n;
        }
        if (best < 0) return;
        s->tried[s->n_tried] = best;
    }
}

static bool is_in_set(const selective *s, unsigned set, int number)
{
    for (int t = 0; t < s->n_tried; t++)
        if (s->tried[t] == number) return set >> t & 1U;
    return false;
}

/* Finds the smallest number of recomputed blocks with which the step fits the budget, if the results of the products in `set`
 * are kept. The more blocks are recomputed, the less memory the step needs. */
static mp_status try_set(selective *s, unsigned set, int64_t budget_bytes, found *best, mp_error *err)
{
    int from = 0, to = s->blocks->n;
    int64_t peak_bytes, ticks, fits_bytes, fits_ticks;
    for (size_t v = 0; v < s->graph->n_nodes; v++) s->kept[v] = s->number[v] >= 0 && is_in_set(s, set, s->number[v]);
    MP_CHECK(mp_module_blocks_judge(s->blocks, to, s->kept, &fits_bytes, &fits_ticks, err));
    if (fits_bytes < best->smallest_bytes) best->smallest_bytes = fits_bytes;
    if (fits_bytes > budget_bytes) return MP_OK;
    while (from < to) {
        const int k = (from + to) / 2;
        MP_CHECK(mp_module_blocks_judge(s->blocks, k, s->kept, &peak_bytes, &ticks, err));
        if (peak_bytes > budget_bytes) {
            from = k + 1;
            continue;
        }
        to = k;
        fits_bytes = peak_bytes;
        fits_ticks = ticks;
    }
    if (best->k >= 0 && (fits_ticks > best->ticks || (fits_ticks == best->ticks && fits_bytes >= best->peak_bytes)))
        return MP_OK;
    *best = (found){to, set, fits_bytes, fits_ticks, best->smallest_bytes};
    return MP_OK;
}

/* Returns the name of a node relative to its block: "q/Add" for "/layers.0/q/Add" in the block "layers.0". */
static const char *name_in_block(const selective *s, int node)
{
    const char *name = s->graph->nodes[node].name, *at = strrchr(name, '/');
    while (at && at > name && at[-1] != '/') at--;
    return at && at > name ? at : name;
}

static void print_saved(mp_framework_writer *x, const selective *s, const found *best)
{
    int n = 0;
    mp_text_put(&x->text, "SAVED = {");
    for (int k = 0; k < s->n_products; k++)
        if (is_in_set(s, best->set, k)) mp_visible_put(&x->text, "%s%d", n++ ? ", " : "", k + 1);
    mp_visible_put(&x->text, "}  # of a block's %d products, in the order of calls%s", s->n_products, n ? ":" : "");
    for (int k = 0, column = 80; k < s->n_products; k++) {
        if (!is_in_set(s, best->set, k)) continue;
        const char *name = name_in_block(s, s->first[k]);
        column += (int)strlen(name) + 2;
        if (column > 76) {
            mp_text_put(&x->text, "\n#  ");
            column = 3 + (int)strlen(name);
        }
        mp_visible_put(&x->text, " %s", name);
    }
    mp_text_put(&x->text, "\n");
}

static void print_lines(mp_framework_writer *x, const selective *s, const found *best)
{
    mp_text_put(&x->text, "import functools\n\nfrom torch.utils import checkpoint as c\n\n");
    mp_text_put(&x->text, "PRODUCTS = (\"mm\", \"addmm\", \"bmm\", \"baddbmm\", \"convolution\", \"_scaled_dot_product\")\n");
    print_saved(x, s, best);
    mp_text_put(&x->text, "\n\ndef contexts():\n    calls = [0, 0]  # in forward, again\n\n");
    mp_text_put(&x->text, "    def policy(context, op, *args, **kwargs):\n");
    mp_text_put(&x->text, "        name = str(op).split(\".\")[1]\n");
    mp_text_put(&x->text, "        if name in PRODUCTS or name.startswith(PRODUCTS[-1]):\n");
    mp_text_put(&x->text, "            calls[context.is_recompute] += 1\n");
    mp_text_put(&x->text, "            if calls[context.is_recompute] in SAVED:\n");
    mp_text_put(&x->text, "                return c.CheckpointPolicy.MUST_SAVE\n");
    mp_text_put(&x->text, "        return c.CheckpointPolicy.PREFER_RECOMPUTE\n\n");
    mp_text_put(&x->text, "    return c.create_selective_checkpoint_contexts(policy)\n\n\nfor name in [\n");
    for (int i = 0; i < best->k; i++) mp_framework_list(x, mp_framework_module(x, s->blocks->module[i]));
    mp_text_put(&x->text, "]:\n    module = model.get_submodule(name)\n");
    mp_text_put(&x->text, "    module.forward = functools.partial(\n");
    mp_text_put(&x->text, "        c.checkpoint, module.forward, use_reentrant=False, context_fn=contexts\n    )\n");
}

static void selective_free(selective *s)
{
    mp_free(s->number);
    mp_free(s->kept);
}

mp_status mp_framework_selective(mp_framework_writer *x, mp_error *err)
{
    MP_CLEARED_BY(mp_module_blocks_free) mp_module_blocks b = {0};
    MP_CLEARED_BY(selective_free) selective s = {.blocks = &b, .graph = x->request->graph};
    found best = {.k = -1, .smallest_bytes = INT64_MAX};
    MP_CHECK(mp_module_blocks_find(x->modules, &b, err));
    s.number = mp_alloc(x->request->graph->n_nodes, sizeof *s.number);
    s.kept = mp_alloc(x->request->graph->n_nodes, sizeof *s.kept);
    MP_ENSURE(s.number && s.kept, err, MP_NOMEM, "out of memory");
    find_products(&s);
    choose_tried(&s);
    for (unsigned set = 0; set < 1U << s.n_tried; set++) MP_CHECK(try_set(&s, set, x->budget_bytes, &best, err));
    if (best.k < 0) {
        mp_framework_too_coarse(x, "with every block checkpointed the peak is", best.smallest_bytes);
        return MP_OK;
    }
    mp_framework_head(x,
                      mp_text("the first %d of %d blocks (%.100s, ...) in selective checkpoints", best.k, b.n,
                              mp_framework_module(x, b.module[0])),
                      best.peak_bytes, best.ticks);
    mp_framework_origin(x);
    if (best.k > 0)
        print_lines(x, &s, &best);
    else
        mp_text_put(&x->text, "# No block has to be checkpointed.\n");
    return MP_OK;
}
