/* columns.c - reads Col2Im: the window is input 2, the image it slides over is input 1. */
#include "estimator/rules/operands/columns.h"

#include <inttypes.h>
#include <string.h>

#include "estimator/model/shape_rule.h"

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
    MP_FIT(n >= 1 && n + 2 <= MP_RANK_MAX, "an image of %zu dimensions", n);
    MP_FIT(n == n_kernel, "a block of %zu dimensions for an image of %zu", n_kernel, n);
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
    MP_FIT(x->dims[1] % s->n_taps == 0, "%" PRId64 " rows do not divide into blocks of %" PRId64, x->dims[1], s->n_taps);
    MP_FIT(x->dims[2] == n_stops, "the block has %" PRId64 " places in the image, and '%s' has %" PRId64 " columns", n_stops,
           x->name, x->dims[2]);
    return MP_OK;
}
