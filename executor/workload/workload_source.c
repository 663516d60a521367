/* workload_source.c - reads the model of a workload: an ONNX file, or a network that memplan knows by name. */
#include "executor/workload/workload_source.h"
#include "estimator/model/model.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "estimator/base/names.h"
#include "estimator/base/quantities.h"
#include "formats/base/nearest.h"
#include "memplan/onnx.h"

const mp_architecture *mp_workload_architecture(const char *path)
{
    return strcmp(path, "-") && access(path, F_OK) ? mp_architecture_find(path) : NULL;
}

/* Reads the sizes given by --dim NAME=N. The pool owns the copies of the names. */
static mp_status read_dimensions(const mp_workload_options *o, mp_pool *pool, mp_dimension *dimensions, mp_error *err)
{
    for (size_t k = 0; k < o->dims.n; k++) {
        const char *text = o->dims.items[k], *equals = strrchr(text, '=');
        dimensions[k].name = mp_pool_text(pool, text, (size_t)(equals - text));
        MP_ENSURE(dimensions[k].name, err, MP_NOMEM, "the dimensions");
        /* the text after '=' is a number, because the option table has checked it */
        mp_count_parse(equals + 1, &dimensions[k].size);
    }
    return MP_OK;
}

enum { NAME_MAX_BYTES = 64 };

/* Writes a name in small letters and without separators, the form in which mp_names_are_alike compares names. Longer names are
 * truncated. */
static const char *plain(const char *name, char text[NAME_MAX_BYTES])
{
    size_t n = 0;
    for (; *name && n + 1 < NAME_MAX_BYTES; name++)
        if (!strchr(" -_", *name)) text[n++] = (char)tolower((unsigned char)*name);
    text[n] = 0;
    return text;
}

/* Fails with an error that names the known networks whose names begin with this name. If there are none, the error names those
 * with the smallest edit distance. */
static mp_status refuse_unknown(const char *name, const char *what, mp_error *err)
{
    char word[NAME_MAX_BYTES], known[NAME_MAX_BYTES], names[256] = "";
    mp_nearest n = mp_nearest_to(plain(name, word));
    size_t n_begun = 0;
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        mp_nearest_offer(&n, plain(mp_architecture_row(k)->name, known));
        n_begun += strlen(word) > 1 && !strncmp(known, word, strlen(word));
    }
    MP_ENSURE(n_begun || mp_nearest_found(&n), err, MP_INVALID, "%s; 'memplan models' lists those that are", what);
    for (size_t k = 0; k < mp_architecture_count(); k++) {
        mp_nearest one = mp_nearest_to(word);
        mp_nearest_offer(&one, plain(mp_architecture_row(k)->name, known));
        const size_t used = strlen(names);
        if (n_begun ? !strncmp(known, word, strlen(word)) : one.distance == n.distance)
            snprintf(names + used, sizeof names - used, "%s%s", used ? " or " : "", mp_architecture_row(k)->name);
    }
    return MP_FAIL(err, MP_INVALID, "%s; did you mean %s?", what, names);
}

/* True if a path looks like a file name: it contains a folder, or ends in a dot and letters such as "model.onnx". "llama3.1-8b"
 * does not. */
static bool looks_like_file(const char *path)
{
    const char *point = strrchr(path, '.');
    return strchr(path, '/') || (point && point[1] && strspn(point + 1, "abcdefghijklmnopqrstuvwxyz") == strlen(point + 1));
}

static bool has_parameter(const mp_model *model, const char *pattern)
{
    bool any = false;
    for (size_t t = 0; !any && t < model->n_tensors; t++)
        any = model->tensors[t].role == MP_ROLE_PARAMETER && !fnmatch(pattern, model->tensors[t].name, 0);
    return any;
}

mp_status mp_workload_named(const char *name, const mp_workload_options *o, mp_model **out, mp_error *err)
{
    const mp_architecture *row = mp_architecture_find(name);
    MP_OWNED mp_dimension *dimensions = mp_alloc(o->dims.n, sizeof *dimensions);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    int64_t sequence = 0;
    MP_ENSURE(dimensions && pool, err, MP_NOMEM, "the dimensions");
    MP_CHECK(read_dimensions(o, pool, dimensions, err));
    if (!row) return refuse_unknown(name, "no network of this name is known", err);
    MP_ENSURE(!o->data.n && !o->external_folder, err, MP_INVALID,
              "--%s applies to model files, but the input is a network known by name", o->data.n ? "data" : "allow-external");
    mp_architecture own = *row;
    for (size_t k = 0; k < o->dims.n; k++)
        if (mp_names_are_alike(dimensions[k].name, "sequence"))
            sequence = dimensions[k].size;
        else
            MP_CHECK(mp_architecture_set(&own, dimensions[k].name, dimensions[k].size, err));
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    MP_CHECK(mp_architecture_model(&own, o->batch, sequence, &model, err));
    for (size_t p = 0; p < o->train.n; p++)
        MP_ENSURE(has_parameter(model, o->train.items[p]), err, MP_INVALID, "--train: there is no parameter '%s'",
                  o->train.items[p]);
    *out = model;
    model = NULL;
    return MP_OK;
}

mp_status mp_workload_model(const char *path, const mp_workload_options *o, mp_model **out, mp_error *err)
{
    MP_OWNED mp_dimension *dimensions = mp_alloc(o->dims.n, sizeof *dimensions);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    const bool is_there = !strcmp(path, "-") || !access(path, F_OK);
    MP_ENSURE(dimensions && pool, err, MP_NOMEM, "the dimensions");
    MP_CHECK(read_dimensions(o, pool, dimensions, err));
    if (mp_workload_architecture(path)) return mp_workload_named(path, o, out, err);
    if (!is_there && !looks_like_file(path))
        return refuse_unknown(path, "there is no such file, and no network of this name is known", err);
    const mp_onnx_options wanted = {.batch = o->batch,
                                    .dimensions = dimensions,
                                    .n_dimensions = o->dims.n,
                                    .data = o->data.items,
                                    .n_data = o->data.n,
                                    .train = o->train.items,
                                    .n_train = o->train.n,
                                    .external_folder = o->external_folder};
    return mp_onnx_read(path, &wanted, out, err);
}
