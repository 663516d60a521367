/* graph_picture.h - a picture of a model's forward pass, and of what becomes of its tensors; of a whole training step. */
#pragma once

#include "memplan/plan.h"

enum { MP_PICTURE_BOXES = 100, MP_PICTURE_BOXES_MAX = 5000 };

typedef struct mp_picture_request {
    const mp_graph *graph;
    const mp_plan *plan; /* NULL: keep-all */
    const char *title;
    int depth; /* how many levels of modules are opened; 0: as many as MP_PICTURE_BOXES boxes allow */
} mp_picture_request;

/* Draws the forward pass as a graph of boxes: an operator, a module, or equal modules in a row, coloured by what becomes of the
 * tensors produced in it, with the bytes; checkpoints in bold outline. MP_LIMIT: more than MP_PICTURE_BOXES_MAX boxes. `path`
 * ends in .svg, .png, .pdf or .dot (a graph of labelled nodes and edges, for Graphviz to lay out), and is replaced as a whole.
 * MP_INVALID: another ending; MP_UNSUPPORTED: this Graphviz cannot write the format; MP_IO, MP_NOMEM. */
mp_status mp_graph_picture(const mp_picture_request *request, const char *path, mp_error *err);

/* Draws the training step three ways, side by side: forward alone, which drops every tensor at its last use; with backward,
 * where tensors are kept for it; with the plan's recomputation in between (left out without a plan). Errors as
 * mp_graph_picture. */
mp_status mp_training_picture(const mp_picture_request *request, const char *path, mp_error *err);
