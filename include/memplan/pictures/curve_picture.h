/* curve_picture.h - a picture of the trade-off between memory and time. */
#pragma once

#include "memplan/studies/sweep.h"

/* Draws a sweep. The left panel plots extra time over memory, from the floor to keep-all. It has a line per searcher, and
 * shades the region that the bound proves impossible. The right panel plots peak and time over the number of evenly spread
 * checkpoints. `path` ends in .svg, .png or .pdf; the file is replaced atomically. MP_INVALID: the path has another ending.
 * MP_UNSUPPORTED: the installed Graphviz cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_curve_picture(const mp_sweep *sweep, const char *title, const char *path, mp_error *err);
