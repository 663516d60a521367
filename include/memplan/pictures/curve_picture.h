/* curve_picture.h - a picture of the trade-off between memory and time. */
#pragma once

#include "memplan/sweep.h"

/* Draws a sweep. The left panel shows memory against extra time, with a line per searcher between floor and keep-all, above the
 * region that is proved impossible. The right panel shows peak and time against the number of evenly spread checkpoints. `path`
 * ends in .svg, .png or .pdf; the file is replaced atomically. MP_INVALID: another ending. MP_UNSUPPORTED: this Graphviz cannot
 * write the format. MP_IO, MP_NOMEM. */
mp_status mp_curve_picture(const mp_sweep *sweep, const char *title, const char *path, mp_error *err);
