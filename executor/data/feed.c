/* feed.c - opens the sources of a feed, and fills batches from them. */
#include "executor/data/feed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "executor/data/columnar.h"
#include "executor/data/samples.h"
#include "executor/kernel/philox.h"
#include "formats/data/dataset.h"

struct mp_feed {
    mp_pool *pool;
    mp_feed_slot *slots;
    mp_sample_file *files; /* one per input slot */
    size_t n;
    uint64_t seed;
    int64_t batch;
    mp_deal deal; /* the order in which the feed uses the samples of its files; n_samples 0: the data are synthetic */
    mp_feed_part part;
    bool is_text;
    mp_dataset text;
    int64_t window; /* if the source is a text: number of tokens per sample */
};

bool mp_feed_is_source(const char *text)
{
    return strchr(text, '=') || !strcmp(text, "synthetic") || mp_columnar_is_file(text);
}

static int64_t sample_elements(const mp_feed_slot *s)
{
    int64_t n = 1;
    for (int d = 1; d < s->rank; d++) n *= s->dims[d];
    return n;
}

/* ---- opening ---- */

static mp_status check_range(const mp_feed_slot *s, const mp_dataset *d, int64_t n, const char *path, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t n_ignored = 0;
    for (int64_t k = 0; (s->n_values || s->ignores) && k < n; k++) {
        const double value = mp_dataset_get(d, k);
        const bool is_ignored = s->ignores && value == (double)s->ignored;
        n_ignored += is_ignored;
        if (is_ignored || !s->n_values || (value >= 0 && value < (double)s->n_values)) continue;
        st = MP_FAIL(err, MP_INVALID, "element %lld is %g, but '%s' needs whole numbers from 0 to %lld", (long long)k, value,
                     s->name, (long long)s->n_values - 1);
        mp_error_locate(err, path, 0, 0);
        return st;
    }
    if (n && n_ignored == n) {
        st = mp_samples_all_ignored(s, n, err);
        mp_error_locate(err, path, 0, 0);
    }
    return st;
}

static mp_status bind_file(mp_feed *f, size_t slot, const char *path, mp_error *err)
{
    MP_ABOUT(err, path);
    const mp_feed_slot *s = &f->slots[slot];
    mp_sample_file *file = &f->files[slot];
    MP_ENSURE(!file->path, err, MP_INVALID, "'%s' has two files; give one --data per input", s->name);
    MP_CHECK(mp_dataset_open(path, &file->set, err));
    MP_ENSURE(file->path = mp_pool_text(f->pool, path, strlen(path)), err, MP_NOMEM, "out of memory");
    MP_ENSURE(mp_dtype_is_float(s->dtype) || !mp_dtype_is_float(file->set.dtype), err, MP_INVALID,
              "'%s' needs whole numbers, but the file contains %s", s->name, mp_dtype_name(file->set.dtype));
    return MP_OK;
}

/* Checks that every input has a source file; the error message names an input without a file. */
static mp_status settle_files(mp_feed *f, mp_error *err)
{
    for (size_t k = 0; k < f->n; k++)
        MP_ENSURE(f->files[k].path, err, MP_INVALID, "there is no data for '%s'; add --data %s=FILE", f->slots[k].name,
                  f->slots[k].name);
    MP_CHECK(mp_samples_settle(f->slots, f->n, f->files, &f->batch, &f->deal.n_samples, err));
    for (size_t k = 0; k < f->n; k++) {
        const mp_dataset *d = &f->files[k].set;
        int64_t n = 1;
        for (int e = 0; e < d->rank; e++) n *= d->dims[e];
        if (f->slots[k].is_elsewhere) continue;
        if (f->files[k].is_dealt)
            MP_CHECK(mp_columnar_check(&f->slots[k], &f->files[k], &f->deal, err));
        else if (!mp_dtype_is_float(f->slots[k].dtype))
            MP_CHECK(check_range(&f->slots[k], d, n, f->files[k].path, err));
    }
    return MP_OK;
}

static mp_status bind_text(mp_feed *f, const char *path, const char *vocabulary, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_feed_slot *tokens = NULL, *target = NULL;
    f->is_text = true;
    for (size_t k = 0; k < f->n; k++) {
        const mp_feed_slot *s = &f->slots[k];
        const mp_feed_slot **role = s->is_target ? &target : &tokens;
        MP_ENSURE(!mp_dtype_is_float(s->dtype) && !*role, err, MP_INVALID,
                  "a text provides one input of tokens and one target, but the model also needs '%s'", s->name);
        *role = s;
    }
    MP_ENSURE(tokens && target, err, MP_INVALID,
              "a text provides an input of tokens and a target, but the model lacks one of them");
    f->window = sample_elements(tokens);
    int64_t targets = sample_elements(target) * target->dims[0];
    MP_ENSURE(targets == f->window * tokens->dims[0], err, MP_INVALID,
              "'%s' needs %lld tokens and '%s' %lld, but every token needs a target", tokens->name,
              (long long)(f->window * tokens->dims[0]), target->name, (long long)targets);
    MP_ENSURE(mp_samples_lie_alike(target, tokens), err, MP_INVALID,
              "'%s' has other dimensions than '%s', so tokens and targets cannot be matched", target->name, tokens->name);
    MP_CHECK(mp_dataset_open_text(path, vocabulary, &f->text, err));
    f->deal.n_samples = f->text.dims[0] - f->window;
    if (f->deal.n_samples < 1) {
        st = MP_FAIL(err, MP_INVALID, "the text has %lld tokens, but a sample needs %lld", (long long)f->text.dims[0],
                     (long long)f->window + 1);
        mp_error_locate(err, path, 0, 0);
        return st;
    }
    MP_CHECK(check_range(tokens, &f->text, f->text.dims[0], path, err));
    MP_CHECK(check_range(target, &f->text, f->text.dims[0], path, err));
    return st;
}

static int find_slot(const mp_feed *f, const char *name, size_t length)
{
    for (size_t k = 0; k < f->n; k++)
        if (strlen(f->slots[k].name) == length && !strncmp(f->slots[k].name, name, length)) return (int)k;
    return -1;
}

static bool has_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    return !strncmp(text, key, n) && text[n] == '=';
}

static mp_status bind(mp_feed *f, const char *const *sources, size_t n_sources, mp_error *err)
{
    const char *text = NULL, *vocabulary = NULL, *columns = NULL;
    bool files = false, synthetic = false;
    for (size_t k = 0; k < n_sources; k++) {
        const char *equals = strchr(sources[k], '=');
        int slot = equals ? find_slot(f, sources[k], (size_t)(equals - sources[k])) : -1;
        if (mp_columnar_is_file(sources[k])) {
            MP_ENSURE(!columns, err, MP_INVALID, "--data %s: only one file with columns is possible", sources[k]);
            columns = mp_pool_text(f->pool, sources[k], strlen(sources[k]));
            MP_ENSURE(columns, err, MP_NOMEM, "out of memory");
            files = true;
        } else if (!equals) {
            synthetic = true;
        } else if (slot >= 0) {
            files = true;
            MP_CHECK(bind_file(f, (size_t)slot, equals + 1, err));
        } else if (has_key(sources[k], "text")) {
            text = equals + 1;
        } else if (has_key(sources[k], "vocabulary")) {
            vocabulary = equals + 1;
        } else {
            MP_ENSURE(false, err, MP_INVALID, "--data %s: the model has no data input with this name", sources[k]);
        }
    }
    MP_ENSURE((text != NULL) + files + synthetic <= 1, err, MP_INVALID,
              "--data is synthetic, a text, or files; choose one of these");
    MP_ENSURE(text || !vocabulary, err, MP_INVALID, "--data vocabulary=FILE needs --data text=FILE");
    if (text) MP_CHECK(bind_text(f, text, vocabulary, err));
    if (columns) f->deal.n_hands = f->part.n * f->part.n_batches;
    if (columns) MP_CHECK(mp_columnar_read(columns, f->part.folder, f->slots, f->n, f->batch, &f->deal, f->files, err));
    if (files) MP_CHECK(settle_files(f, err));
    MP_ENSURE(!f->deal.n_samples || f->deal.n_samples >= f->batch, err, MP_INVALID,
              "the files have %lld samples, but a batch needs %lld", (long long)f->deal.n_samples, (long long)f->batch);
    MP_ENSURE(f->deal.n_samples || !(files || text), err, MP_INVALID, "the files contain no samples");
    return MP_OK;
}

mp_status mp_feed_open(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources, uint64_t seed,
                       mp_feed **out, mp_error *err)
{
    return mp_feed_open_part(slots, n_slots, sources, n_sources, seed, &(mp_feed_part){0, 1, 1, NULL}, out, err);
}

mp_status mp_feed_open_part(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources,
                            uint64_t seed, const mp_feed_part *part, mp_feed **out, mp_error *err)
{
    MP_OWNED_BY(mp_feed_free) mp_feed *f = mp_alloc(1, sizeof *f);
    MP_ENSURE(f, err, MP_NOMEM, "out of memory");
    *f = (mp_feed){.n = n_slots, .seed = seed, .part = *part, .deal = {.index = part->index, .sharers = part->n, .n_hands = 1}};
    MP_ENSURE(f->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    f->slots = mp_pool_alloc(f->pool, n_slots, sizeof *f->slots);
    f->files = mp_pool_alloc(f->pool, n_slots, sizeof *f->files);
    MP_ENSURE(f->slots && f->files, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n_slots; k++) {
        int64_t *dims = mp_pool_alloc(f->pool, (size_t)slots[k].rank + 1, sizeof *dims);
        f->slots[k] = slots[k];
        f->slots[k].name = mp_pool_text(f->pool, slots[k].name, strlen(slots[k].name));
        MP_ENSURE(dims && f->slots[k].name, err, MP_NOMEM, "out of memory");
        for (int d = 0; d < slots[k].rank; d++) dims[d] = slots[k].dims[d];
        f->slots[k].dims = dims;
        MP_ENSURE(slots[k].dtype == MP_DTYPE_FLOAT || slots[k].dtype == MP_DTYPE_INT64 || slots[k].dtype == MP_DTYPE_INT32 ||
                      slots[k].dtype == MP_DTYPE_BOOL,
                  err, MP_UNSUPPORTED, "the input '%s' has the type %s, but only float32, int64, int32 and bool are supported",
                  slots[k].name, mp_dtype_name(slots[k].dtype));
    }
    f->batch = mp_samples_batch(f->slots, n_slots);
    MP_CHECK(bind(f, sources, n_sources, err));
    *out = f;
    f = NULL;
    return MP_OK;
}

void mp_feed_free(mp_feed *f)
{
    if (!f) return;
    for (size_t k = 0; f->files && k < f->n; k++) mp_dataset_close(&f->files[k].set);
    mp_dataset_close(&f->text);
    mp_pool_free(f->pool);
    mp_free(f);
}

/* ---- batches ---- */

static void put_integer(const mp_feed_slot *s, void *rows, int64_t at, int64_t value)
{
    if (s->dtype == MP_DTYPE_INT32)
        ((int32_t *)rows)[at] = (int32_t)value;
    else if (s->dtype == MP_DTYPE_BOOL)
        ((uint8_t *)rows)[at] = value != 0;
    else
        ((int64_t *)rows)[at] = value;
}

/* Fills an input (slot) whose values are the same in every batch: one fixed number, or 0, 1, 2 ... along the last dimension. */
static void generate_known(const mp_feed_slot *s, int64_t n, void *rows)
{
    const int64_t last = s->rank ? s->dims[s->rank - 1] : 1, wrap = s->n_values && s->n_values < last ? s->n_values : last;
    for (int64_t k = 0; k < n; k++) {
        const double value = s->fill == MP_FEED_FIXED ? s->fixed : (double)(k % last % wrap);
        if (s->dtype == MP_DTYPE_FLOAT)
            ((float *)rows)[k] = (float)value;
        else
            put_integer(s, rows, k, (int64_t)value);
    }
}

static void generate(const mp_feed *f, size_t slot, int64_t batch, void *rows)
{
    const mp_feed_slot *s = &f->slots[slot];
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->dims[d];
    uint32_t key = 0x80000000u | (uint32_t)slot;
    if (s->fill != MP_FEED_RANDOM) {
        generate_known(s, n, rows);
        return;
    }
    if (s->dtype == MP_DTYPE_FLOAT) {
        float *to = rows;
        mp_random_uniforms(f->seed, (uint32_t)batch, key, 0, n, to);
        for (int64_t k = 0; k < n; k++) to[k] = 2 * to[k] - 1;
        return;
    }
    int64_t values = s->n_values ? s->n_values : 2;
    for (int64_t k = 0; k < n; k++)
        put_integer(s, rows, k,
                    (int64_t)((uint64_t)mp_random_word(f->seed, (uint32_t)batch, key, (uint64_t)k) * (uint64_t)values >> 32));
}

/* Returns the index of a sample's first element in its file's data; a sample has n elements. */
static int64_t sample_place(const mp_feed *f, const mp_sample_file *file, int64_t sample, int64_t n)
{
    if (file->is_dealt) return mp_deal_position(&f->deal, sample) * n;
    return file->form == MP_SAMPLE_SHARED ? 0 : sample * n;
}

static void copy_sample(const mp_feed *f, size_t slot, int64_t sample, int64_t row, void *rows)
{
    const mp_feed_slot *s = &f->slots[slot];
    const mp_sample_file *file = &f->files[slot];
    const int64_t n = mp_sample_elements(s, file, f->batch), from = sample_place(f, file, sample, n);
    if (s->dtype == MP_DTYPE_FLOAT) {
        mp_dataset_floats(&file->set, from, n, (float *)rows + row * n);
        return;
    }
    for (int64_t k = 0; k < n; k++) put_integer(s, rows, row * n + k, (int64_t)mp_dataset_get(&file->set, from + k));
}

static void copy_window(const mp_feed *f, size_t slot, int64_t sample, int64_t row, void *rows)
{
    int64_t from = sample + (f->slots[slot].is_target ? 1 : 0);
    for (int64_t k = 0; k < f->window; k++)
        put_integer(&f->slots[slot], rows, row * f->window + k, (int64_t)mp_dataset_get(&f->text, from + k));
}

/* Returns the number of samples that a batch of the input contains: 1 if a sample is a whole input. */
static int64_t batch_rows(const mp_feed *f, size_t slot)
{
    return f->is_text || f->files[slot].form == MP_SAMPLE_ROWS ? f->batch : 1;
}

void mp_feed_share(mp_feed *f, int index, int n)
{
    f->deal.index = index;
    f->deal.sharers = n;
}

/* Fills a batch; `batch` counts the batches of all ranks. If the batch belongs to another rank (is_own false), columns are
 * skipped, because they contain only this rank's samples. */
static void fill(const mp_feed *f, int64_t batch, bool is_own, void *const *rows)
{
    size_t n_filled = 0;
    for (size_t slot = 0; slot < f->n; slot++) {
        if (f->slots[slot].is_elsewhere) continue;
        void *to = rows[n_filled++];
        if (!is_own && f->files[slot].is_dealt) continue;
        if (!f->deal.n_samples) {
            generate(f, slot, batch, to);
            continue;
        }
        for (int64_t row = 0; row < batch_rows(f, slot); row++) {
            int64_t sample = mp_deal_sample(&f->deal, f->seed, batch, f->batch, row);
            if (f->is_text)
                copy_window(f, slot, sample, row, to);
            else
                copy_sample(f, slot, sample, row, to);
        }
    }
}

void mp_feed_batch(const mp_feed *f, int64_t batch, void *const *rows)
{
    fill(f, batch * f->deal.sharers + f->deal.index, true, rows);
}

/* Writes a sentence about a bad value in a file; `element` is the index of the value in the file. */
static void describe_fault(const mp_feed_slot *s, const mp_sample_file *file, int64_t element, double value,
                           char text[MP_FEED_FAULT_TEXT])
{
    const mp_dataset *d = &file->set;
    int64_t at[MP_DATASET_RANK] = {0};
    char place[MP_DATASET_RANK * 22 + 8] = "";
    for (int k = d->rank; k-- > 0; element /= d->dims[k]) at[k] = element % d->dims[k];
    for (int k = 1, n = 0; k < d->rank; k++)
        n += snprintf(place + n, sizeof place - (size_t)n, "%s%lld%s", k > 1 ? ", " : " at [", (long long)at[k],
                      k + 1 < d->rank ? "" : "]");
    snprintf(text, MP_FEED_FAULT_TEXT, "row %lld of '%s', data of '%s', has %g%s%s", (long long)at[0], file->path, s->name,
             value, isfinite(value) ? " (too large for float32)" : "", place);
}

/* Finds a NaN, an infinity, or a number beyond float32 in one sample of an input (slot). Infinities are allowed in masks. */
static bool find_number(const mp_feed *f, size_t slot, int64_t sample, char text[MP_FEED_FAULT_TEXT])
{
    const mp_feed_slot *s = &f->slots[slot];
    const mp_sample_file *file = &f->files[slot];
    const int64_t n = mp_sample_elements(s, file, f->batch), from = sample_place(f, file, sample, n);
    for (int64_t k = 0; k < n; k++) {
        const double value = mp_dataset_get(&file->set, from + k);
        if (isfinite((float)value) || (isinf(value) && s->fill == MP_FEED_FIXED)) continue;
        describe_fault(s, file, (file->form == MP_SAMPLE_SHARED ? 0 : sample * n) + k, value, text);
        return true;
    }
    return false;
}

/* Returns the number of labels of a sample that the loss does not ignore. */
static int64_t count_labels(const mp_feed *f, size_t slot, int64_t sample)
{
    const mp_feed_slot *s = &f->slots[slot];
    const int64_t n = mp_sample_elements(s, &f->files[slot], f->batch), from = sample_place(f, &f->files[slot], sample, n);
    int64_t n_labels = 0;
    for (int64_t k = 0; k < n; k++) n_labels += mp_dataset_get(&f->files[slot].set, from + k) != (double)s->ignored;
    return n_labels;
}

bool mp_feed_find_fault(const mp_feed *f, int64_t k, char text[MP_FEED_FAULT_TEXT])
{
    const int64_t batch = k * f->deal.sharers + f->deal.index;
    for (size_t slot = 0; f->deal.n_samples && !f->is_text && slot < f->n; slot++) {
        const mp_feed_slot *s = &f->slots[slot];
        int64_t n_labels = s->is_target && s->ignores ? 0 : 1;
        if (s->is_elsewhere) continue;
        for (int64_t row = 0; row < batch_rows(f, slot); row++) {
            const int64_t sample = mp_deal_sample(&f->deal, f->seed, batch, f->batch, row);
            if (s->dtype == MP_DTYPE_FLOAT && find_number(f, slot, sample, text)) return true;
            if (!n_labels) n_labels = count_labels(f, slot, sample);
        }
        if (n_labels) continue;
        snprintf(text, MP_FEED_FAULT_TEXT, "all labels of this batch in '%s' are %lld, which the loss ignores",
                 f->files[slot].path, (long long)s->ignored);
        return true;
    }
    return false;
}

int64_t mp_feed_samples(const mp_feed *f)
{
    return f->deal.n_samples;
}

int64_t mp_feed_batch_size(const mp_feed *f)
{
    return f->batch;
}

int64_t mp_feed_batches(const mp_feed *f)
{
    int64_t samples = f->is_text ? f->text.dims[0] / f->window : f->deal.n_samples;
    return samples > f->batch && f->batch ? samples / f->batch : 1;
}

/* Returns the bytes of one batch of an input (slot). */
static size_t slot_bytes(const mp_feed_slot *s)
{
    size_t n = (size_t)mp_dtype_bits(s->dtype) / 8;
    for (int d = 0; d < s->rank; d++) n *= (size_t)s->dims[d];
    return n;
}

mp_status mp_feed_digest(const mp_feed *f, uint64_t *digest, mp_error *err)
{
    const int64_t last = mp_feed_batches(f) - 1, batches[] = {0, last / 2, last};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    void **rows = mp_pool_alloc(pool, f->n, sizeof *rows);
    uint64_t hash = XXH64(&f->deal.n_samples, sizeof f->deal.n_samples, (uint64_t)f->batch);
    MP_ENSURE(rows, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < f->n; k++)
        MP_ENSURE(rows[k] = mp_pool_alloc(pool, slot_bytes(&f->slots[k]) + 1, 1), err, MP_NOMEM, "no memory for a batch");
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        fill(f, batches[b], false, rows);
        for (size_t k = 0; k < f->n; k++)
            if (!f->files[k].is_dealt) hash = XXH64(rows[k], slot_bytes(&f->slots[k]), hash);
    }
    *digest = hash;
    return MP_OK;
}
