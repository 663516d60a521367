/* pipeline_timeline.c - draws when the ranks of a pipeline are busy with which micro-batch. */
#include "cli/messages/messages.h"
#include "cli/options/picture_file.h"
#include "cli/reports/pipeline.h"
#include "formats/canvas/canvas.h"
#include "memplan/pictures/pipeline_picture.h"

int pipeline_timeline(const options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(pipeline_free) pipeline p = {0};
    picture_file file;
    const int rc = picture_file_settle(o, "svg, png, pdf", &file);
    if (rc != EXIT_DONE) return rc;
    if (mp_canvas_check_path(file.path, &err) != MP_OK)
        return usage_error("-o: %s; a trace is of one graph: --rank", err.message);
    if (pipeline_estimate_ranks(o, &p, &err) != MP_OK) return input_failed(&err);
    const char **notes = mp_pool_alloc(p.pool, (size_t)p.shape.n_ranks, sizeof *notes);
    mp_status st = notes ? picture_file_open(&file, &err) : MP_NO_MEMORY(&err);
    for (int r = 0; r < p.shape.n_ranks && st == MP_OK; r++) {
        notes[r] = mp_pool_format(p.pool, "%s", mp_bytes_text(p.ranks[r].peak_bytes));
        if (!notes[r]) st = MP_NO_MEMORY(&err);
    }
    if (st == MP_OK) st = mp_pipeline_picture(&p.shape, p.played, p.title, notes, file.path, &err);
    return picture_file_close(&file, &o->output, st, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
