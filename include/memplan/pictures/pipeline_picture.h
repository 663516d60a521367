/* pipeline_picture.h - a picture of a pipeline step: one row per rank, one bar per pass of a micro-batch.
 *
 *     // given: const mp_pipeline_shape *shape; const mp_stage_seconds *stages; mp_error *err
 *     MP_OWNED_BY(mp_schedule_free) mp_played *played = NULL;
 *     MP_CHECK(mp_schedule_play(shape, stages, &played, err));
 *     MP_CHECK(mp_pipeline_picture(shape, played, "gpt2, batch 8", NULL, "pipeline.svg", err));
 */
#pragma once

#include "memplan/ranks/schedule.h"

/* Draws a simulated training step (mp_schedule_play). `title` names the model. `notes` has a text per rank, such as its
 * peak; NULL: no texts. White parts of a row are the bubble, in which the rank waits for others. `path` ends in .svg, .png
 * or .pdf. MP_INVALID: the path has another ending. MP_UNSUPPORTED: the installed Graphviz cannot write the format. MP_IO,
 * MP_NOMEM. */
mp_status mp_pipeline_picture(const mp_pipeline_shape *shape, const mp_played *played, const char *title,
                              const char *const *notes, const char *path, mp_error *err);
