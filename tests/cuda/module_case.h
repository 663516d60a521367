/* module_case.h - the GPU's backend for tests linked with it, opened before the first test and closed after the last.
 *
 *     return cmocka_run_group_tests(tests, make_backend, close_backend);
 */
#pragma once

#include "estimator/base/memory.h"
#include "executor/cpu/cpu.h"
#include "executor/kernel/backend.h"

mp_module_entry mp_module_backend;
static mp_backend *gpu;
static long n_kept; /* allocations of a new backend (opened if there is a GPU) before its use */

static inline int make_backend(void **unused)
{
    (void)unused;
    gpu = mp_module_backend(&mp_cpu, 0);
    if (gpu) gpu->use(gpu);
    if (gpu) gpu->open(gpu, NULL);
    n_kept = mp_alloc_live;
    return gpu ? 0 : -1;
}

static inline int close_backend(void **unused)
{
    (void)unused;
    gpu->close(gpu);
    return 0;
}
