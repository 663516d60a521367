/* curve_picture.h - the trade-off between memory and time as a picture. */
#pragma once

#include "memplan/sweep.h"

/* Draws a sweep: at the left memory against extra time, a line per searcher between floor and keep-all, above what is proved to
 * be impossible; at the right what becomes of peak and time with more and more evenly spread checkpoints. `path` ends in .svg,
 * .png or .pdf, and is replaced as a whole. MP_INVALID: another ending; MP_UNSUPPORTED: this Graphviz cannot write the
 * format; MP_IO, MP_NOMEM.
 */
mp_status mp_curve_picture(const mp_sweep *sweep, const char *title, const char *path, mp_error *err);
