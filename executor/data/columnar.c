/* columnar.c - opens a columnar file through its module, and reads this rank's rows of each column. */
#include "executor/data/columnar.h"

#include <string.h>
#include <strings.h>

#include "executor/modules/modules.h"
#include "formats/base/file.h"
#include "formats/columnar/columnar_file.h"

static void close_columns(mp_columnar_file *c)
{
    if (c) c->close(c);
}
MP_OWNER(close_columns, mp_columnar_file)

bool mp_columnar_is_file(const char *source)
{
    const char *point = strrchr(source, '.');
    return point && !strchr(source, '=') && !strcasecmp(point, ".parquet");
}

static mp_status open_columns(const char *path, mp_columnar_file **out, mp_error *err)
{
    void *symbol;
    MP_CHECK(
        mp_module_symbol("parquet", "mp_module_columnar", "columnar data", "Parquet module", "make PARQUET=1", &symbol, err));
    /* the file is opened here before the module reads it, so that a missing file is reported with the usual message */
    MP_CLEARED_BY(mp_file_close)
    mp_file file = {0};
    MP_CHECK(mp_file_open(path, INT64_MAX, &file, err));
    mp_module_open_columnar *open;
    /* memcpy converts the symbol, because ISO C cannot convert an object pointer to a function pointer */
    memcpy(&open, &symbol, sizeof open);
    return open(path, out, err);
}

/* If a row of the file is a list with as many numbers as a row of the input, gives the list the shape of the input's row. */
static void take_shape(const mp_feed_slot *s, int64_t batch, mp_dataset *set)
{
    int64_t n = 1;
    if (set->rank != 2 || s->rank < 3 || s->rank > MP_DATASET_RANK || s->dims[0] != batch) return;
    for (int d = 1; d < s->rank; d++) n *= s->dims[d];
    if (set->dims[1] != n) return;
    set->rank = s->rank;
    for (int d = 1; d < s->rank; d++) set->dims[d] = s->dims[d];
}

static mp_status read_column(mp_columnar_file *c, const char *path, const mp_feed_slot *s, int64_t batch,
                             const mp_row_range *own, size_t n_own, mp_sample_file *file, mp_error *err)
{
    MP_CHECK(c->read(c, s->name, own, n_own, &file->set, err));
    file->path = path;
    file->is_dealt = true;
    file->set.dims[0] = c->n_rows;
    take_shape(s, batch, &file->set);
    MP_ENSURE(mp_dtype_is_float(s->dtype) || !mp_dtype_is_float(file->set.dtype), err, MP_INVALID,
              "'%s' needs whole numbers, but the column contains %s", s->name, mp_dtype_name(file->set.dtype));
    return MP_OK;
}

mp_status mp_columnar_read(const char *path, const char *folder, const mp_feed_slot *slots, size_t n_slots, int64_t batch,
                           mp_deal *deal, mp_sample_file *files, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(close_columns) mp_columnar_file *c = NULL;
    MP_OWNED mp_row_range *own = mp_alloc((size_t)deal->n_hands, sizeof *own);
    size_t n_own = 0;
    MP_ENSURE(own, err, MP_NOMEM, "out of memory");
    MP_CHECK(open_columns(path, &c, err));
    c->folder = folder;
    deal->n_samples = c->n_rows;
    const int64_t least = mp_deal_hand(deal, 0).n;
    MP_ENSURE(c->n_rows >= batch && c->n_rows > 0, err, MP_INVALID, "the file has %lld rows, but a batch needs %lld",
              (long long)c->n_rows, (long long)batch);
    MP_ENSURE(least >= batch && least > 0, err, MP_INVALID,
              "the file's %lld rows give each of the %d micro-batches of a step %lld rows, but a micro-batch needs %lld",
              (long long)c->n_rows, deal->n_hands, (long long)least, (long long)batch);
    for (int hand = mp_deal_first(deal); hand < deal->n_hands; hand += deal->sharers) {
        const mp_range has = mp_deal_hand(deal, hand);
        own[n_own++] = (mp_row_range){has.from, has.n};
    }
    for (size_t k = 0; k < n_slots; k++)
        if (!files[k].path) MP_CHECK(read_column(c, path, &slots[k], batch, own, n_own, &files[k], err));
    return MP_OK;
}

mp_status mp_columnar_check(const mp_feed_slot *s, const mp_sample_file *file, const mp_deal *deal, mp_error *err)
{
    MP_ABOUT(err, file->path);
    int64_t per_row = 1, k = 0, n_ignored = 0;
    for (int d = 1; d < file->set.rank; d++) per_row *= file->set.dims[d];
    MP_ENSURE(file->form != MP_SAMPLE_SHARED, err, MP_INVALID,
              "'%s' has no batch dimension, but a column has a row per sample; add --data %s=FILE.npy", s->name, s->name);
    for (int hand = deal->index; (s->n_values || s->ignores) && hand < deal->n_hands; hand += deal->sharers) {
        const mp_range has = mp_deal_hand(deal, hand);
        for (int64_t row = has.from; row < has.from + has.n; row++)
            for (int64_t e = 0; e < per_row; e++, k++) {
                const double value = mp_dataset_get(&file->set, k);
                const bool is_ignored = s->ignores && value == (double)s->ignored;
                n_ignored += is_ignored;
                if (is_ignored || !s->n_values || (value >= 0 && value < (double)s->n_values)) continue;
                return MP_FAIL(err, MP_INVALID, "row %lld of column '%s' is %g, but '%s' needs whole numbers from 0 to %lld",
                               (long long)row, s->name, value, s->name, (long long)s->n_values - 1);
            }
    }
    return k && n_ignored == k ? mp_samples_all_ignored(s, k, err) : MP_OK;
}
