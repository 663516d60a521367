/* window.c - reads and checks kernel size, strides, dilations and pads of sliding windows. */
#include "estimator/rules/operands/window.h"

#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"

/* Reads the n sizes of attribute `name`, each of which must be at least `least`. If the attribute is absent, all sizes are
 * `otherwise`. */
static mp_status read_sizes(mp_infer *c, const char *name, size_t n, int64_t least, int64_t otherwise, int64_t *sizes)
{
    size_t given;
    const int64_t *ints = mp_operator_ints(c->op, name, &given);
    MP_FIT(!ints || given == n, "%s has %zu values instead of %zu", name, given, n);
    for (size_t k = 0; k < n; k++) {
        sizes[k] = ints ? ints[k] : otherwise;
        MP_FIT(sizes[k] >= least, "%s may not be %" PRId64, name, sizes[k]);
    }
    return MP_OK;
}

mp_status mp_window_read(mp_infer *c, int n, const int64_t *kernel, mp_window *w)
{
    size_t count = (size_t)n;
    int64_t pads[2 * MP_RANK_MAX];
    memset(w, 0, sizeof *w);
    w->n = n;
    MP_FIT(kernel || mp_operator_attribute(c->op, "kernel_shape"), "kernel_shape is missing");
    MP_CHECK(read_sizes(c, "kernel_shape", count, 1, kernel ? 1 : 0, w->kernel));
    if (kernel) {
        size_t given;
        bool stated = mp_operator_ints(c->op, "kernel_shape", &given) != NULL;
        for (int k = 0; k < n; k++) {
            MP_FIT(kernel[k] >= 1, "the weight has no elements along spatial dimension %d", k);
            MP_FIT(!stated || w->kernel[k] == kernel[k], "kernel_shape is %" PRId64 ", but the weight has %" PRId64,
                   w->kernel[k], kernel[k]);
            w->kernel[k] = kernel[k];
        }
    }
    MP_CHECK(read_sizes(c, "strides", count, 1, 1, w->stride));
    MP_CHECK(read_sizes(c, "dilations", count, 1, 1, w->dilation));
    for (int k = 0; k < n; k++)
        MP_FIT(mp_multiply(w->kernel[k] - 1, w->dilation[k], &w->span[k]) && mp_add(w->span[k], 1, &w->span[k]),
               "the dilated kernel is too large");
    w->ceil_mode = mp_operator_int(c->op, "ceil_mode", 0) != 0;

    const char *auto_pad = mp_operator_text(c->op, "auto_pad", "NOTSET");
    if (!strcmp(auto_pad, "SAME_UPPER") || !strcmp(auto_pad, "SAME_LOWER")) {
        w->padding = MP_PADDING_SAME;
    } else if (!strcmp(auto_pad, "VALID")) {
        w->padding = MP_PADDING_VALID;
    } else {
        MP_FIT(!strcmp(auto_pad, "NOTSET") || !*auto_pad, "auto_pad '%s' is unknown", auto_pad);
        MP_CHECK(read_sizes(c, "pads", 2 * count, 0, 0, pads));
        memcpy(w->begin, pads, count * sizeof *pads);
        memcpy(w->end, pads + count, count * sizeof *pads);
    }
    return MP_OK;
}

mp_status mp_window_slide(const mp_infer *c, const mp_window *w, const int64_t *in, int64_t *out)
{
    for (int k = 0; k < w->n; k++) {
        int64_t padded, stride = w->stride[k];
        if (w->padding ==
            MP_PADDING_SAME) { /* auto_pad SAME: there is one window at every multiple of the stride inside the input */
            out[k] = in[k] / stride + (in[k] % stride != 0);
            continue;
        }
        MP_FIT(mp_add(in[k], w->begin[k], &padded) && mp_add(padded, w->end[k], &padded), "the padding is too large");
        int64_t slack = padded - w->span[k], inside = in[k] + w->begin[k];
        bool up = w->ceil_mode && w->padding == MP_PADDING_EXPLICIT;
        /* if the number of windows is rounded up, a window may extend past the padded end, and even be larger than the
         * padded input */
        MP_FIT(slack >= 0 || (up && slack > -stride),
               "a window of %" PRId64 " does not fit into %" PRId64 " (padding included) along spatial dimension %d",
               w->span[k], padded, k);
        out[k] = slack < 0 ? 1 : slack / stride + 1 + (up && slack % stride != 0);
        /* the last window must begin before the padding at the end of the input */
        if (up && out[k] > 1 && out[k] - 1 >= inside / stride + (inside % stride != 0)) out[k]--;
    }
    return MP_OK;
}

mp_status mp_window_unslide(const mp_infer *c, const mp_window *w, const int64_t *in, const int64_t *output_padding,
                            int64_t *out)
{
    for (int k = 0; k < w->n; k++) {
        int64_t size = 0, pads, whole;
        bool fits = in[k] >= 1 && mp_multiply(in[k] - 1, w->stride[k], &size) && mp_add(size, w->span[k], &size) &&
                    mp_add(size, output_padding ? output_padding[k] : 0, &size);
        if (fits && w->padding == MP_PADDING_SAME) { /* auto_pad SAME: the output size is input size * stride (`whole`), or the
                                                        unpadded size if that is smaller */
            fits = mp_multiply(in[k], w->stride[k], &whole);
            if (fits && size > whole) size = whole;
        }
        fits = fits && mp_add(w->begin[k], w->end[k], &pads) && size >= pads;
        if (fits) size -= pads;
        MP_FIT(fits, "no size along spatial dimension %d fits %" PRId64 " windows and this padding", k, in[k]);
        out[k] = size;
    }
    return MP_OK;
}

mp_status mp_columns_read(mp_infer *c, mp_columns *s, bool *known)
{
    const mp_tensor *x;
    const int64_t *image, *kernel = NULL;
    size_t n, n_kernel = 0;
    int64_t n_stops = 1;
    MP_CHECK(mp_rule_input(c, 0, 3, 3, &x));
    MP_CHECK(mp_infer_integers(c, 1, &image, &n));
    if (image) MP_CHECK(mp_infer_integers(c, 2, &kernel, &n_kernel));
    *known = image && kernel;
    if (!*known) return MP_OK;
    MP_FIT(n >= 1 && n + 2 <= MP_RANK_MAX, "an image of %zu dimensions is not supported", n);
    MP_FIT(n == n_kernel, "a block of %zu dimensions does not fit an image of %zu dimensions", n_kernel, n);
    memset(s, 0, sizeof *s);
    s->n_taps = 1;
    for (size_t k = 0; k < n; k++) {
        MP_FIT(image[k] >= 0 && kernel[k] >= 1, "a block of %" PRId64 " for an image of %" PRId64, kernel[k], image[k]);
        MP_FIT(mp_multiply(s->n_taps, kernel[k], &s->n_taps), "the block is too large");
        s->image[k] = image[k];
    }
    MP_CHECK(mp_window_read(c, (int)n, kernel, &s->window));
    MP_CHECK(mp_window_slide(c, &s->window, s->image, s->stops));
    for (size_t k = 0; k < n; k++) MP_FIT(mp_multiply(n_stops, s->stops[k], &n_stops), "the image is too large");
    MP_FIT(x->dims[1] % s->n_taps == 0, "%" PRId64 " rows cannot be split into blocks of %" PRId64, x->dims[1], s->n_taps);
    MP_FIT(x->dims[2] == n_stops, "the block has %" PRId64 " positions in the image, but '%s' has %" PRId64 " columns", n_stops,
           x->name, x->dims[2]);
    return MP_OK;
}
