/* achieved.c - seconds of a kernel from its shape: tiles and waves of products, bandwidth of each family of kernels. */
#include "estimator/training/achieved.h"

#include <math.h>
#include <string.h>

enum {
    ALIGNED_ELEMENTS = 8, /* 16-bit matrices whose rows are a multiple of 16 bytes use the matrix units at full rate */
    STEM_CHANNELS = 4,    /* a convolution with at most this number of input channels reads an image */
    DEPTH_STEP = 32,      /* the depth of a tile's loop is rounded up to this number of elements */
    SPLIT_DEPTH = 256,    /* smallest depth of a part of a split product */
    SPLIT_OVERHEAD = 64,  /* cost of adding the parts of a split product, in elements of depth */
    MAX_SPLIT = 128,
    PACKED_CHANNELS = 32,
    LEAST_CHANNELS = 16,  /* minimum number of channels that other grouped kernels compute in a tile */
    LOADED_RESULTS = 256, /* loads limit grouped channels-last kernels, as if each load had this many uses */
    MANY_GROUPS = 12,     /* minimum number of groups for cuDNN's grouped kernels in channels-last layout */
    NARROW_WINDOW = 9,    /* maximum number of window elements for these kernels */
    BUSY_CHANNELS = 256,  /* a depthwise weight gradient of this number of channels occupies the whole device */
    LARGE_WINDOW = 49     /* largest window for which there are fast depthwise kernels */
};

/* A tile of the result that one multiprocessor computes, and the share of the peak that tiles of this size reach. */
typedef struct tile {
    double rows, columns, share;
} tile;
static const tile tiles[] = {{256, 128, 1},  {128, 128, 0.95}, {128, 64, 0.8}, {64, 64, 0.6},
                             {128, 32, 0.5}, {64, 32, 0.45},   {32, 32, 0.35}};

typedef struct shares {
    const char *name;
    double product, memory;
} shares;
static const shares rates[] = {
#define RATE(ID, name, product, memory) [MP_TIMED_##ID] = {name, product, memory},
#include "estimator/training/rates.def"
};

const char *mp_timed_family_name(mp_timed_family family)
{
    return rates[family].name;
}

mp_timed_family mp_timed_family_find(const char *name)
{
    int k = 0;
    while (k < MP_N_TIMED && strcmp(rates[k].name, name) != 0) k++;
    return (mp_timed_family)k;
}

static double rounded_up(double size, double step)
{
    return ceil(size / step) * step;
}

mp_rate_kernel mp_kernel_of_product(mp_dtype dtype, double batch, double rows, double columns, double depth, double moved_bytes)
{
    const bool is_aligned = fmod(columns, ALIGNED_ELEMENTS) == 0 && fmod(depth, ALIGNED_ELEMENTS) == 0;
    mp_timed_family family = batch > 1 ? MP_TIMED_BATCHED_PRODUCT : MP_TIMED_PRODUCT;
    if (!is_aligned && mp_dtype_bits(dtype) == 16) family = batch > 1 ? MP_TIMED_BATCHED_UNALIGNED : MP_TIMED_UNALIGNED;
    return (mp_rate_kernel){.family = family,
                            .dtype = dtype,
                            .moved_bytes = moved_bytes,
                            .batch = batch,
                            .rows = rows,
                            .columns = columns,
                            .depth = depth};
}

/* cuDNN has grouped kernels for these channels per group. They compute several groups in a tile of PACKED_CHANNELS channels. */
static bool is_narrow(const mp_rate_convolution *c)
{
    const double n = c->in_channels;
    if (c->is_channels_last && (c->groups < MANY_GROUPS || c->window > NARROW_WINDOW)) return false;
    return c->groups > 1 && n == c->out_channels && (n == 4 || n == 8 || n == 16 || n == 32);
}

static bool is_depthwise(const mp_rate_convolution *c)
{
    return c->groups > 1 && c->in_channels <= 1 && c->out_channels <= 2;
}

static mp_timed_family rate_of_convolution(const mp_rate_convolution *c, mp_convolution_part part)
{
#define PARTS(ID)                                                             \
    {                                                                         \
        MP_TIMED_##ID##_FORWARD, MP_TIMED_##ID##_DATA, MP_TIMED_##ID##_WEIGHT \
    }
    enum { DEPTHWISE, DEPTHWISE_LAST, LARGE, LARGE_LAST, NARROW, NARROW_LAST, WIDE, WIDE_LAST, STEM, POINT, WINDOW, N_KINDS };
    static const mp_timed_family of[N_KINDS][MP_N_CONVOLUTION_PARTS] = {[DEPTHWISE] = PARTS(DEPTHWISE),
                                                                        [LARGE] = PARTS(LARGE),
                                                                        [DEPTHWISE_LAST] = PARTS(DEPTHWISE_LAST),
                                                                        [LARGE_LAST] = PARTS(LARGE_LAST),
                                                                        [NARROW] = PARTS(NARROW),
                                                                        [NARROW_LAST] = PARTS(NARROW_LAST),
                                                                        [WIDE] = PARTS(WIDE),
                                                                        [WIDE_LAST] = PARTS(WIDE_LAST),
                                                                        [STEM] = PARTS(STEM),
                                                                        [POINT] = PARTS(POINT),
                                                                        [WINDOW] = PARTS(WINDOW)};
#undef PARTS
    int kind = c->in_channels <= STEM_CHANNELS ? STEM : c->window <= 1 ? POINT : WINDOW;
    if (is_depthwise(c))
        kind = (c->window > LARGE_WINDOW ? LARGE : DEPTHWISE) + c->is_channels_last;
    else if (c->groups > 1)
        kind = (is_narrow(c) ? NARROW : WIDE) + c->is_channels_last;
    return of[kind][part];
}

mp_rate_kernel mp_kernel_of_convolution(mp_dtype dtype, const mp_rate_convolution *c, mp_convolution_part part,
                                        double moved_bytes)
{
    /* 16-bit activations whose number of channels is no multiple of 8 are copied to tensors with padded channels */
    const double step = mp_dtype_bits(dtype) == 16 && c->in_channels > STEM_CHANNELS ? ALIGNED_ELEMENTS : 1;
    const double padded_in = rounded_up(c->groups * c->in_channels, step),
                 padded_out = rounded_up(c->groups * c->out_channels, step);
    const bool is_padded = padded_in + padded_out > c->groups * (c->in_channels + c->out_channels);
    const double activations = padded_in * c->in_positions + padded_out * c->out_positions;
    double in = c->in_channels, out = c->out_channels, groups = c->groups;
    mp_rate_kernel k = {.family = rate_of_convolution(c, part), .dtype = dtype, .moved_bytes = moved_bytes};
    if (is_depthwise(c)) {
        k.flops = 2 * groups * in * out * c->window * c->out_positions;
        /* the gradient of the weight is a sum per channel; few channels occupy a part of the device */
        if (part == MP_CONVOLUTION_WEIGHT && groups < BUSY_CHANNELS) k.flops *= BUSY_CHANNELS / groups;
        return k;
    }
    const double packed = is_narrow(c) ? PACKED_CHANNELS : LEAST_CHANNELS;
    if (groups > 1 && in < packed && in == out) {
        groups = ceil(groups * in / packed);
        in = out = packed;
    }
    /* other grouped kernels in channels-last layout take the same time for 56 and for 168 channels per group */
    const bool loads = groups > 1 && c->is_channels_last && !is_narrow(c) && in > PACKED_CHANNELS;
    const double results = loads ? LOADED_RESULTS : out, gradients = loads ? LOADED_RESULTS : in;
    k.batch = groups;
    if (!c->is_channels_last || is_padded) k.reordered_bytes = activations * mp_dtype_bits(dtype) / 8;
    if (part == MP_CONVOLUTION_FORWARD)
        k.rows = c->out_positions, k.columns = results, k.depth = rounded_up(in, ALIGNED_ELEMENTS) * c->window;
    else if (part == MP_CONVOLUTION_DATA) { /* with a stride, only some elements of the window reach a position of the input */
        k.rows = c->in_positions, k.columns = gradients;
        k.depth = rounded_up(out, ALIGNED_ELEMENTS) * c->window * c->out_positions / c->in_positions;
    } else
        k.rows = results, k.columns = in * c->window, k.depth = c->out_positions;
    return k;
}

static double peak_of(const mp_device *device, mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT16    ? device->fp16_flops
           : dtype == MP_DTYPE_BFLOAT16 ? device->bf16_flops
                                        : device->fp32_flops;
}

/* Returns the seconds of a product in tiles of one size, at a peak of 1 FLOP/s. The last wave occupies all multiprocessors,
 * however few tiles it has. If the tiles occupy less than half of the multiprocessors, the depth is split into parts. */
static double tiled_seconds(const mp_rate_kernel *k, const tile *t, double n_multiprocessors)
{
    const double n_tiles = ceil(k->rows / t->rows) * ceil(k->columns / t->columns) * k->batch;
    int n_parts = 1;
    while (n_parts < MAX_SPLIT && 2 * n_parts * n_tiles <= n_multiprocessors && k->depth / (2 * n_parts) >= SPLIT_DEPTH)
        n_parts *= 2;
    const double depth = rounded_up(k->depth / n_parts, DEPTH_STEP) + (n_parts > 1 ? SPLIT_OVERHEAD : 0);
    return ceil(n_tiles * n_parts / n_multiprocessors) * n_multiprocessors * 2 * t->rows * t->columns * depth / t->share;
}

/* Returns the seconds of a product in the best tiles, at a peak of 1 FLOP/s. */
static double product_seconds(const mp_rate_kernel *k, double n_multiprocessors)
{
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int turned = 0; turned < 2; turned++) {
            const tile t = turned ? (tile){tiles[i].columns, tiles[i].rows, tiles[i].share} : tiles[i];
            best = fmin(best, tiled_seconds(k, &t, n_multiprocessors));
        }
    return best;
}

mp_kernel_parts mp_kernel_at_peak(const mp_device *device, const mp_rate_kernel *kernel)
{
    const double peak = peak_of(device, kernel->dtype) * device->reach;
    mp_kernel_parts parts = {.memory = kernel->moved_bytes / device->bytes_per_second,
                             .reordering = 2 * kernel->reordered_bytes / device->bytes_per_second};
    if (kernel->rows > 0)
        parts.product = product_seconds(kernel, device->multiprocessors) / peak;
    else if (kernel->flops > 0) /* depthwise convolutions do not use the matrix units */
        parts.product = kernel->flops / (kernel->family <= MP_TIMED_LARGE_LAST_WEIGHT ? device->fp32_flops : peak);
    return parts;
}

double mp_kernel_seconds(const mp_device *device, const mp_rate_kernel *kernel)
{
    const mp_kernel_parts parts = mp_kernel_at_peak(device, kernel);
    const shares *share = &rates[kernel->family];
    return fmax(parts.product / share->product, parts.memory / share->memory) +
           parts.reordering / rates[MP_TIMED_REORDERING].memory +
           device->launch_seconds * (kernel->launch_share > 0 ? kernel->launch_share : 1);
}
