/* workload_loss.c - parses the options of the loss: lists of class weights, given as text or in files, and the ignored
 * label, which may be negative. */
#include "executor/workload/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/data/dataset.h"

static mp_status read_file(const char *path, double **out, size_t *n, mp_error *err)
{
    MP_CLEARED_BY(mp_dataset_close) mp_dataset d = {0};
    int64_t count = 1;
    MP_CHECK(mp_dataset_open(path, &d, err));
    for (int k = 0; k < d.rank; k++) count *= d.dims[k];
    MP_ENSURE(*out = mp_alloc((size_t)count + 1, sizeof **out), err, MP_NOMEM, "out of memory");
    for (int64_t k = 0; k < count; k++) {
        (*out)[k] = mp_dataset_get(&d, k);
        if (!isfinite((*out)[k]) || (*out)[k] < 0)
            return MP_FAIL_AT(err, MP_INVALID, path, 0, 0, "element %lld is %g, but a weight must be at least 0", (long long)k,
                              (*out)[k]);
    }
    *n = (size_t)count;
    return MP_OK;
}

static mp_status read_list(const char *option, const char *text, double **out, size_t *n, mp_error *err)
{
    const size_t length = strlen(text);
    if (length > 4 && !strcmp(text + length - 4, ".npy")) return read_file(text, out, n, err);
    MP_ENSURE(*out = mp_alloc(length + 1, sizeof **out), err, MP_NOMEM, "out of memory");
    for (const char *at = text;; at++) {
        char *end;
        const double value = strtod(at, &end);
        MP_ENSURE(end != at && (*end == ',' || !*end) && isfinite(value) && value >= 0, err, MP_INVALID,
                  "--%s: '%s' is neither a list of numbers of at least 0, like 1,0.5,2, nor an .npy file", option, text);
        (*out)[(*n)++] = value;
        at = end;
        if (!*at) break;
    }
    return MP_OK;
}

mp_status mp_loss_settings_read(const mp_workload_options *o, mp_loss_settings *out, mp_error *err)
{
    *out = (mp_loss_settings){.wanted = {.label_smoothing = o->label_smoothing, .beta = o->beta}};
    if (o->ignore_index) {
        char *end;
        errno = 0;
        out->ignore_index = strtoll(o->ignore_index, &end, 10);
        MP_ENSURE(!errno && end != o->ignore_index && !*end, err, MP_INVALID, "--ignore-index: '%s' is not a whole number",
                  o->ignore_index);
        out->wanted.ignore_index = &out->ignore_index;
    }
    if (o->class_weights)
        MP_CHECK(read_list("class-weights", o->class_weights, &out->class_weights, &out->wanted.n_class_weights, err));
    if (o->pos_weight) MP_CHECK(read_list("pos-weight", o->pos_weight, &out->pos_weight, &out->wanted.n_pos_weight, err));
    out->wanted.class_weights = out->class_weights;
    out->wanted.pos_weight = out->pos_weight;
    return MP_OK;
}

void mp_loss_settings_free(mp_loss_settings *l)
{
    mp_free(l->class_weights);
    mp_free(l->pos_weight);
    *l = (mp_loss_settings){0};
}
