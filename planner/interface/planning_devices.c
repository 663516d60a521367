/* planning_devices.c - functions that need no handle: the version of the interface, data-sheet values of devices that are known
 * by name, and budgets and links as users write them. */
#include <string.h>

#include "estimator/training/target.h"
#include "memplan/budget.h"
#include "memplan/planning.h"
#include "memplan/ranks/network.h"
#include "memplan/target.h"

enum { INTERFACE = 1 };

int mp_planning_interface(void)
{
    return INTERFACE;
}

const char *mp_planning_device(size_t k)
{
    const mp_device *row = mp_device_row(k);
    return row ? row->name : NULL;
}

double mp_planning_roofline(const char *device, const char *dtype, double flops, int64_t moved_bytes)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    if (!row || !dtype) return -1;
    const mp_device at_tf32 = mp_device_at_tf32(row);
    const mp_work work = {.flops = flops,
                          .moved_bytes = moved_bytes,
                          .dtype = !strcmp(dtype, "float16")    ? MP_DTYPE_FLOAT16
                                   : !strcmp(dtype, "bfloat16") ? MP_DTYPE_BFLOAT16
                                                                : MP_DTYPE_FLOAT};
    return mp_roofline_seconds(strcmp(dtype, "tfloat32") ? row : &at_tf32, &work);
}

int64_t mp_planning_capacity(const char *device)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    return row ? row->memory_bytes - row->reserve_bytes : -1;
}

int64_t mp_planning_reserve(const char *device)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    if (!row && device) row = mp_device_of_card(device);
    return row ? row->reserve_bytes : -1;
}

const char *mp_planning_budget(const char *text, int64_t keep_all_bytes, int64_t smallest_bytes, int64_t *bytes)
{
    static const char *const names[] = {[MP_BUDGET_BYTES] = "bytes",
                                        [MP_BUDGET_OF_PEAK] = "peak",
                                        [MP_BUDGET_ABOVE_MIN] = "min",
                                        [MP_BUDGET_FREE] = "auto",
                                        [MP_BUDGET_DEVICE] = "device"};
    const char *why;
    mp_budget b;
    if (!text || !bytes || !mp_budget_parse(text, &b, &why)) return NULL;
    *bytes = mp_budget_is_of_device(&b) ? -1 : mp_budget_resolve(&b, keep_all_bytes, smallest_bytes);
    return names[b.kind];
}

double mp_planning_link_rate(const char *link)
{
    mp_link read;
    if (!link || !mp_link_parse(link, NULL, &read)) return -1;
    return strchr(link, '/') && !strchr(link, ',') ? read.out_bytes_per_second : 0;
}

const char *mp_planning_network(const char *device)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    return row ? mp_network_of_device(row->name) : NULL;
}

double mp_planning_collective(const char *device, const char *collective, int64_t n, int64_t stride, int64_t bytes)
{
    const char *name = mp_planning_network(device);
    const int kind = collective ? mp_collective_find(collective) : -1;
    mp_interconnect network;
    if (!name || kind < 0 || n < 1 || stride < 1 || bytes < 0 || mp_network_read(name, &network, NULL) != MP_OK) return -1;
    return mp_collective_seconds(&network, (mp_collective)kind, MP_ALGORITHM_AUTO, (mp_rank_group){n, stride}, bytes);
}
