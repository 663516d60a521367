/* planning_devices.c - functions that need no handle: the version of the interface, data-sheet values of devices that are known
 * by name, and budgets and links as users write them. */
#include <string.h>

#include "estimator/training/accuracy.h"
#include "estimator/training/achieved.h"
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

static mp_dtype product_type(const char *dtype)
{
    return !strcmp(dtype, "float16") ? MP_DTYPE_FLOAT16 : !strcmp(dtype, "bfloat16") ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT;
}

double mp_planning_roofline(const char *device, const char *dtype, double flops, int64_t moved_bytes)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    if (!row || !dtype) return -1;
    const mp_device at_tf32 = mp_device_at_tf32(row);
    const mp_work work = {.flops = flops, .moved_bytes = moved_bytes, .dtype = product_type(dtype)};
    return mp_roofline_seconds(strcmp(dtype, "tfloat32") ? row : &at_tf32, &work);
}

/* Reads a kernel from its name and sizes, as in mp_planning_achieved. */
static bool read_kernel(const char *name, mp_dtype dtype, const double *s, size_t n, double moved_bytes, mp_rate_kernel *out)
{
    static const char *const parts[] = {[MP_CONVOLUTION_FORWARD] = "convolution forward",
                                        [MP_CONVOLUTION_DATA] = "convolution data",
                                        [MP_CONVOLUTION_WEIGHT] = "convolution weight"};
    enum { PRODUCT_SIZES = 4, CONVOLUTION_SIZES = 7 };
    if (!strcmp(name, "product")) {
        if (n == PRODUCT_SIZES) *out = mp_kernel_of_product(dtype, s[0], s[1], s[2], s[3], moved_bytes);
        return n == PRODUCT_SIZES;
    }
    for (int k = 0; k < MP_N_CONVOLUTION_PARTS; k++) {
        if (strcmp(name, parts[k]) != 0) continue;
        if (n != CONVOLUTION_SIZES) return false;
        const mp_rate_convolution c = {s[0], s[1], s[2], s[3], s[4], s[5], s[6] != 0};
        *out = mp_kernel_of_convolution(dtype, &c, (mp_convolution_part)k, moved_bytes);
        return true;
    }
    *out = (mp_rate_kernel){
        .family = mp_timed_family_find(name), .dtype = dtype, .moved_bytes = moved_bytes, .flops = n ? s[0] : 0};
    return out->family < MP_N_TIMED && n <= 1;
}

double mp_planning_achieved(const char *device, const char *dtype, const char *kernel, const double *sizes, size_t n_sizes,
                            int64_t moved_bytes, double *at_peak, const char **family)
{
    const mp_device *row = device ? mp_device_find(device) : NULL;
    mp_rate_kernel k;
    if (!row || !row->multiprocessors || !dtype || !kernel || (n_sizes && !sizes)) return -1;
    if (!read_kernel(kernel, product_type(dtype), sizes, n_sizes, (double)moved_bytes, &k)) return -1;
    const mp_device at_tf32 = mp_device_at_tf32(row), *own = strcmp(dtype, "tfloat32") ? row : &at_tf32;
    const mp_kernel_parts parts = mp_kernel_at_peak(own, &k);
    if (at_peak) at_peak[0] = parts.product, at_peak[1] = parts.memory, at_peak[2] = parts.reordering;
    if (family) *family = mp_timed_family_name(k.family);
    return mp_kernel_seconds(own, &k);
}

bool mp_planning_accuracy(const char *const *families, const double *seconds, size_t n, char *text)
{
    mp_spending spending = {{0}};
    for (size_t k = 0; k < n; k++) {
        const mp_timed_family family = mp_timed_family_find(families[k]);
        if (family < MP_N_TIMED) spending.seconds[family] += seconds[k];
    }
    return mp_accuracy_tell(&spending, 1, text);
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
