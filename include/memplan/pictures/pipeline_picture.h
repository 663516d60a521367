/* pipeline_picture.h - a picture of a pipeline step: one row per rank, one bar per pass of a micro-batch.
 *
 *     MP_CHECK(mp_schedule_play(&shape, stages, &played, err));
 *     MP_CHECK(mp_pipeline_picture(&shape, played, "gpt2, batch 8", NULL, "pipeline.svg", err));
 */
#pragma once

#include "memplan/ranks/schedule.h"

/* Draws a simulated step. `title` names the model. `notes` has a text per rank, such as its peak, or is NULL. White parts of a
 * row are the bubble: the rank waits for others. `path` as for mp_timeline_picture. MP_INVALID: another ending. MP_UNSUPPORTED:
 * this Graphviz cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_pipeline_picture(const mp_pipeline_shape *shape, const mp_played *played, const char *title,
                              const char *const *notes, const char *path, mp_error *err);
