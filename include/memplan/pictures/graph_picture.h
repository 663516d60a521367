/* graph_picture.h - pictures of a model's forward pass with the treatment of its tensors, and of a training step. */
#pragma once

#include "memplan/plan.h"

enum { MP_PICTURE_BOXES = 100, MP_PICTURE_BOXES_MAX = 5000 };

typedef struct mp_picture_request {
    const mp_graph *graph;
    const mp_plan *plan; /* NULL: keep-all */
    const char *title;
    int depth; /* number of module levels that the picture expands; 0: as many as fit into MP_PICTURE_BOXES boxes */
} mp_picture_request;

/* Draws the forward pass of a model as a graph of boxes. A box is an operator, a module, or a row of equal modules. Its
 * colour and bytes show the treatment of its tensors (kept, recomputed, ...). Checkpoints have a bold outline. MP_LIMIT:
 * more than MP_PICTURE_BOXES_MAX boxes. `path` ends in .svg, .png, .pdf or .dot (labelled nodes and edges for Graphviz to
 * lay out); the file is replaced atomically. MP_INVALID: the path has another ending. MP_UNSUPPORTED: the installed Graphviz
 * cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_graph_picture(const mp_picture_request *request, const char *path, mp_error *err);

/* Draws the training step in three versions, side by side. The first version contains only forward, which frees every tensor
 * after its last use. The second adds backward; tensors that backward reads are kept. The third adds the plan's
 * recomputation; it is omitted if no plan is given. Errors as mp_graph_picture. */
mp_status mp_training_picture(const mp_picture_request *request, const char *path, mp_error *err);
