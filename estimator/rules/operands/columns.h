/* columns.h - Col2Im: images as sums of windows, read off its operands. The columns (N, C * taps, stops) hold what lies under
 * each tap of the window at each of its stops; taps and stops are counted row-major. */
#pragma once

#include "estimator/rules/operands/window.h"

typedef struct mp_columns {
    mp_window window;
    int64_t image[MP_RANK_MAX], stops[MP_RANK_MAX]; /* per spatial dimension: its size, and where the window stops */
    int64_t n_taps;                                 /* of one window */
} mp_columns;

/* *known false (and missing_value set) when the sizes of image or window are not known. MP_PARSE: sizes that do not fit to the
 * columns or to each other. */
mp_status mp_columns_read(mp_infer *c, mp_columns *columns, bool *known);
