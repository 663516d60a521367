/* samplings.c - the table of operators that read between elements. */
#include "executor/cpu/kernels.h"
#include "executor/operators/sampling/taps.h"

const mp_kernel mp_cpu_samplings[] = {
    {"Resize", "", mp_prepare_resize, mp_prepare_resize},
    {"Upsample", "", mp_prepare_resize, mp_prepare_resize},
    {"GridSample", "", mp_prepare_grid_sample, mp_prepare_grid_sample},
    {"RoiAlign", "", mp_prepare_roi_align, mp_prepare_roi_align},
    {"MaxRoiPool", "", mp_prepare_max_roi_pool, NULL},
    {0},
};
