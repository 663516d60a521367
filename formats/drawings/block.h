/* block.h - common parts of graph pictures: the fates of a block's tensors (mp_fate), the box that shows them, and the
 * heading with the legend. Private to formats/. */
#pragma once

#include "formats/canvas/canvas.h"
#include "formats/drawings/graph_blocks.h"
#include "memplan/plan.h"

#define MP_BLOCK_WIDTH 156.0
#define MP_BLOCK_HEIGHT 48.0

/* The bytes that the nodes of a block produce, and its checkpoints. */
typedef struct mp_block_fact {
    int64_t bytes[MP_N_FATES]; /* per fate: bytes produced. MP_FATE_NONE: bytes of static storages, such as outputs that
                                  the user requested */
    size_t n_checkpoints;
    bool ends_in_checkpoint; /* true if a later block reads a checkpoint that this block produces */
} mp_block_fact;

typedef struct mp_block_facts {
    mp_pool *pool; /* memory pool that owns all arrays of this struct */
    const mp_graph *graph;
    const mp_graph_blocks *blocks;
    const mp_plan *plan; /* the plan; NULL: keep-all */
    mp_fate *fates;      /* fate of each storage */
    bool *checkpoint;  /* per storage: true if the plan keeps it as a checkpoint. Without a plan all are false, because keep-all
                          keeps every activation */
    mp_block_fact *of; /* facts about each block */
    mp_block_fact total;
} mp_block_facts;

/* Computes the fates of the tensors of all blocks. On MP_OK release *out with mp_block_facts_free (a zeroed struct is
 * allowed). MP_NOMEM. */
mp_status mp_block_facts_find(const mp_graph *graph, const mp_graph_blocks *blocks, const mp_plan *plan, mp_block_facts *out,
                              mp_error *err);
void mp_block_facts_free(mp_block_facts *facts);

/* Returns the bytes that a block produces, summed over all fates. */
int64_t mp_block_bytes(const mp_block_fact *fact);
/* The order of fates in the box of a block, from left to right: kept bytes first. */
extern const mp_fate mp_fate_order[MP_N_FATES];
/* Returns the colour in which pictures show a fate. */
const char *mp_fate_color(mp_fate fate);

/* Draws block k with its bottom left corner at (x, y). The box is filled with the colours of its tensors' fates in
 * proportion to their bytes. The outline is bold if the block ends in a checkpoint. With `tooltip`, the box has a tooltip
 * that lists its operators. */
void mp_block_draw(mp_canvas *canvas, const mp_block_facts *facts, size_t k, double x, double y, bool tooltip);
/* Draws the outline and the three lines of text of a box that is filled already. tooltip may be NULL. */
void mp_box_finish(mp_canvas *canvas, double x, double y, bool bold, const char *title, const char *subtitle, const char *bytes,
                   const char *tooltip);

/* An entry of a legend. */
typedef struct mp_legend_row {
    const char *color; /* colour of the entry's swatch */
    bool bold;         /* true if the swatch of the entry has a bold outline */
    double line;       /* width of a line that is drawn instead of the swatch, in points; 0: a swatch is drawn */
    const char *text;
} mp_legend_row;

/* mp_heading_height returns the height that a heading of this width needs. mp_heading_draw draws the heading with its upper
 * edge at y. */
double mp_heading_height(const mp_legend_row *rows, size_t n, double width);
void mp_heading_draw(mp_canvas *canvas, double x, double y, double width, const char *title, const char *subtitle,
                     const mp_legend_row *rows, size_t n);
/* Returns the smallest width at which a heading need not be shortened. */
double mp_heading_width(const char *title, const char *subtitle);

/* Returns "resnet50, batch 32: 1.69 GiB instead of 2.82 GiB, 40 % less". If the plan saves no memory, returns only the title.
 * The result is valid as long as a result of mp_text (text.h). */
const char *mp_saving_title(const char *title, const mp_plan *plan);
/* Returns "peak 1.69 GiB of a budget of 1.75 GiB, 5.9 % more time"; "" if there is no plan. The result is valid as long as a
 * result of mp_text (text.h). */
const char *mp_plan_subtitle(const mp_plan *plan);

/* ---- blocks as a DOT graph, for Graphviz and other programs ---- */

/* True if a path names a DOT file: it ends in .dot. */
bool mp_is_dot_path(const char *path);

/* Writes a DOT file. Each block is a node, labelled and coloured as in a picture; an edge leads from a block to each of its
 * readers. Nodes have no positions: `dot -Tsvg` computes them. The file is replaced atomically, as by mp_file_write. MP_IO,
 * MP_NOMEM. */
mp_status mp_block_dot_write(const mp_block_facts *facts, const char *title, const char *subtitle, const char *path,
                             mp_error *err);
