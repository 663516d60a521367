/* block_dot.c - writes a DOT graph. Blocks are nodes with labels and colours, but without positions. */
#include "formats/drawings/block.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "estimator/base/memory.h"
#include "estimator/base/visible_text.h"
#include "formats/base/file.h"
#include "formats/base/text.h"

enum { LINE_MAX_BYTES = 4 * MP_BLOCK_TEXT, COLORS_MAX = 128 };

bool mp_is_dot_path(const char *path)
{
    const char *point = strrchr(path, '.');
    return point && !strcasecmp(point, ".dot");
}

/* Appends a text within a quoted string. Quotes, backslashes and control characters are escaped. */
static void put_escaped(mp_text_builder *out, const char *text)
{
    char shown[2 * LINE_MAX_BYTES];
    for (const char *at = mp_visible_text(text, shown, sizeof shown); *at; at++) {
        const char piece[] = {'\\', *at, '\0'};
        mp_text_put(out, *at == '"' || *at == '\\' ? piece : piece + 1);
    }
}

/* Writes the fill colours of a block for Graphviz's style `striped`: one colour, or several colours with their fractions.
 * Returns the number of colours. */
static size_t share_colors(const mp_block_fact *fact, char *text)
{
    const int64_t total = mp_block_bytes(fact);
    int64_t left = total;
    size_t n = 0, length = 0;
    snprintf(text, COLORS_MAX, "%s", MP_COLOR_GRID);
    for (size_t k = 0; k < MP_N_FATES; k++) {
        const int64_t bytes = fact->bytes[mp_fate_order[k]];
        const long long thousandths = total ? (long long)(1000.0 * (double)bytes / (double)total) : 0;
        left -= bytes;
        if (!thousandths) continue; /* a fraction below a thousandth is omitted, because it is invisible */
        length += (size_t)snprintf(text + length, COLORS_MAX - length, "%s%s", n ? ":" : "", mp_fate_color(mp_fate_order[k]));
        if (left && thousandths < 1000)
            length += (size_t)snprintf(text + length, COLORS_MAX - length, ";0.%03lld", thousandths);
        n++;
    }
    return n;
}

static void put_block(mp_text_builder *out, const mp_block_facts *facts, size_t k)
{
    const mp_graph_block *block = &facts->blocks->blocks[k];
    const mp_block_fact *fact = &facts->of[k];
    char colors[COLORS_MAX];
    mp_text_format(out, "  b%zu [label=\"", k);
    put_escaped(out, block->title);
    mp_text_put(out, *block->subtitle ? "\\n" : "");
    put_escaped(out, block->subtitle);
    mp_text_put(out, "\\n");
    mp_text_put(out, mp_bytes_text(mp_block_bytes(fact)));
    if (block->n > 1 && fact->n_checkpoints)
        mp_text_format(out, ", %zu checkpoint%s", fact->n_checkpoints, fact->n_checkpoints > 1 ? "s" : "");
    const size_t n = share_colors(fact, colors);
    mp_text_format(out, "\", style=%s, fillcolor=\"%s\"", n > 1 ? "striped" : "filled", colors);
    mp_text_put(out, fact->ends_in_checkpoint ? ", penwidth=2.5];\n" : "];\n");
}

mp_status mp_block_dot_write(const mp_block_facts *facts, const char *title, const char *subtitle, const char *path,
                             mp_error *err)
{
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_text_builder_free) mp_text_builder out = {0};
    mp_text_put(&out, "digraph \"");
    put_escaped(&out, title);
    mp_text_put(&out, "\" {\n  graph [labelloc=t, fontname=\"DejaVu Sans\", label=\"");
    put_escaped(&out, title);
    mp_text_put(&out, "\\n");
    put_escaped(&out, subtitle);
    mp_text_put(&out, "\"];\n  node [shape=box, fontname=\"DejaVu Sans\", fontsize=11];\n");
    for (size_t k = 0; k < facts->blocks->n; k++) put_block(&out, facts, k);
    for (size_t k = 0; k < facts->blocks->n_edges; k++)
        mp_text_format(&out, "  b%d -> b%d;\n", facts->blocks->edges[k].from, facts->blocks->edges[k].to);
    mp_text_put(&out, "}\n");
    MP_ENSURE(!out.failed, err, MP_NOMEM, "no memory for a graph of %zu boxes", facts->blocks->n);
    return mp_file_write(path, out.text, out.length, err);
}
