/* cmd_draw.c - the command draw: draws the blocks of a model, or its training step. Colours show whether a plan keeps,
 * recomputes or copies a tensor. */
#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/picture_file.h"
#include "executor/workload/workload.h"
#include "formats/canvas/canvas.h"
#include "formats/drawings/block.h"
#include "memplan/pictures/graph_picture.h"

int cmd_draw(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    if (!o->output.out) return usage_error("draw needs a file to draw into: -o model.svg");
    picture_file file;
    const int rc = picture_file_settle(o, "svg, png, pdf, dot", &file);
    if (rc != EXIT_DONE) return rc;
    const bool graph = mp_is_dot_path(file.path);
    if (graph && o->output.training)
        return usage_error("--training is a picture of three graphs: -o .svg, .png or .pdf, not .dot");
    if (!graph && mp_canvas_check_path(file.path, &err) != MP_OK) return usage_error("-o: %s, or .dot", err.message);
    if (load_workload_with_plan(o->operands[0], o->output.plan, o, &s, &err) != MP_OK) return input_failed(&err);
    const mp_picture_request request = {
        .graph = s.graph, .plan = s.plan, .title = s.heading, .depth = o->output.depth > 1000 ? 1000 : (int)o->output.depth};
    mp_status st = picture_file_open(&file, &err);
    if (st == MP_OK) st = (o->output.training ? mp_training_picture : mp_graph_picture)(&request, file.path, &err);
    st = picture_file_close(&file, &o->output, st, &err);
    return st == MP_OK ? EXIT_DONE : st == MP_LIMIT || st == MP_INVALID ? input_failed(&err) : output_failed(&err);
}
