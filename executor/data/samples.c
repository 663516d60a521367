/* samples.c - compares the shape of every file with that of its input, and then the files with each other. */
#include "executor/data/samples.h"

#include <stdio.h>

/* The possible interpretations of a file for its input; several may fit. */
typedef struct readings {
    int64_t rows;  /* number of samples if each sample is a row of the input; -1: the shapes do not fit this interpretation */
    int64_t stack; /* number of samples if each sample is a whole input; -1: the shapes do not fit this interpretation */
    bool whole;    /* true: the file may contain the input itself */
} readings;

static int64_t elements(int rank, const int64_t *dims, int from)
{
    int64_t n = 1;
    for (int d = from; d < rank; d++) n *= dims[d];
    return n;
}

static const char *shape_text(int rank, const int64_t *dims, const char *between, char text[128])
{
    size_t length = 0;
    for (int d = 0; d < rank && length + 24 < 128; d++)
        length += (size_t)snprintf(text + length, 128 - length, "%s%lld", d ? between : "", (long long)dims[d]);
    if (rank <= 0) snprintf(text, 128, "a single number");
    return text;
}

int64_t mp_samples_batch(const mp_feed_slot *slots, size_t n_slots)
{
    int64_t first = 0, several = 0;
    for (size_t k = 0; k < n_slots; k++) {
        if (slots[k].is_target || !slots[k].rank) continue;
        const int64_t rows = slots[k].dims[0];
        for (size_t t = 0; t < n_slots; t++)
            if (slots[t].is_target && slots[t].rank && slots[t].dims[0] == rows) return rows ? rows : 1;
        if (!first) first = rows;
        if (!several && rows > 1) several = rows;
    }
    return several ? several : first ? first : 1;
}

/* True if two shapes are equal except for dimensions of size 1. */
static bool is_like(int rank, const int64_t *dims, int other_rank, const int64_t *other)
{
    int a = 0, b = 0;
    for (;; a++, b++) {
        while (a < rank && dims[a] == 1) a++;
        while (b < other_rank && other[b] == 1) b++;
        if (a >= rank || b >= other_rank) return a >= rank && b >= other_rank;
        if (dims[a] != other[b]) return false;
    }
}

/* True if the shape is that of a single list: at most one dimension is larger than 1. */
static bool is_list(int rank, const int64_t *dims)
{
    int n = 0;
    for (int d = 0; d < rank; d++) n += dims[d] != 1;
    return n <= 1;
}

/* True if the input has rows that are samples. A target may have several rows per sample, one for every position, such as a
 * token. */
static bool has_rows(const mp_feed_slot *s, int64_t batch)
{
    if (!s->rank || !s->dims[0]) return false;
    return s->is_target ? s->dims[0] % batch == 0 : s->dims[0] == batch;
}

/* Writes the shape of one sample: the input's shape without the batch. If a target has several positions per sample, their
 * number becomes the first dimension. */
static int sample_shape(const mp_feed_slot *s, int64_t batch, int64_t dims[MP_RANK_MAX])
{
    int rank = 0;
    if (s->dims[0] != batch) dims[rank++] = s->dims[0] / batch;
    for (int d = 1; d < s->rank; d++) dims[rank++] = s->dims[d];
    return rank;
}

/* Returns the number of samples in the file if each sample is a row of the input, else -1. A sample must have the shape of a
 * row. If a row is a single list, a sample may have any shape with as many numbers. The numbers of a sample are read in the
 * order of the file, as if the network flattened the sample. */
static int64_t count_rows(const mp_feed_slot *s, const mp_dataset *d, int64_t batch)
{
    int64_t part[MP_RANK_MAX];
    if (!has_rows(s, batch) || !d->rank) return -1;
    const int rank = sample_shape(s, batch, part), n = d->rank - 1;
    const int64_t *row = d->dims + 1, size = elements(rank, part, 0);
    if (is_like(n, row, rank, part) || (is_list(rank, part) && elements(n, row, 0) == size)) return d->dims[0];
    /* for a target with several positions per sample, the file may store a sample as part[0] consecutive rows, one per
     * position */
    const bool positions = s->is_target && rank && part[0] && is_like(n, row, rank - 1, part + 1);
    return positions && d->dims[0] % part[0] == 0 ? d->dims[0] / part[0] : -1;
}

static readings read(const mp_feed_slot *s, const mp_dataset *d, int64_t batch)
{
    readings r = {.rows = count_rows(s, d, batch), .stack = -1};
    if (d->rank && is_like(d->rank - 1, d->dims + 1, s->rank, s->dims)) r.stack = d->dims[0];
    r.whole = is_like(d->rank, d->dims, s->rank, s->dims);
    return r;
}

/* Searches a permutation of the file's dimensions so that the dimensions after the first `from` have the wanted shape.
 * order[0..at) is already chosen. The hint in the error message uses the result. */
static bool reorder(const mp_dataset *d, int from, int rank, const int64_t *wanted, int at, int order[MP_DATASET_RANK])
{
    int64_t dims[MP_DATASET_RANK];
    for (int k = 0; k < at; k++) dims[k] = d->dims[order[k]];
    if (at == d->rank) return is_like(d->rank - from, dims + from, rank, wanted);
    for (int next = 0; next < d->rank; next++) {
        bool is_free = true;
        for (int k = 0; k < at; k++) is_free &= order[k] != next;
        order[at] = next;
        if (is_free && reorder(d, from, rank, wanted, at + 1, order)) return true;
    }
    return false;
}

/* Returns a hint on how to make the file fit its input; "" if the file has a wrong number of elements. */
static const char *remedy(const mp_feed_slot *s, const mp_dataset *d, int64_t batch, char text[256])
{
    int64_t part[MP_RANK_MAX];
    int order[MP_DATASET_RANK];
    char shape[128];
    const bool rows = has_rows(s, batch) && d->rank;
    const int rank = rows ? sample_shape(s, batch, part) : 0;
    *text = 0;
    if ((rows && reorder(d, 1, rank, part, 0, order)) || reorder(d, 0, s->rank, s->dims, 0, order) ||
        (d->rank && reorder(d, 1, s->rank, s->dims, 0, order))) {
        size_t n = (size_t)snprintf(text, 256, "; NumPy's transpose(");
        for (int k = 0; k < d->rank; k++) n += (size_t)snprintf(text + n, 256 - n, "%s%d", k ? ", " : "", order[k]);
        snprintf(text + n, 256 - n, ") of the array fits");
    } else if (rows && elements(d->rank, d->dims, 1) == elements(rank, part, 0)) {
        snprintf(text, 256, "; if the order of the numbers is right, use NumPy's reshape(-1%s%s)", rank ? ", " : "",
                 shape_text(rank, part, ", ", shape));
    }
    return text;
}

static mp_status misfit(const mp_feed_slot *s, const mp_sample_file *file, int64_t batch, mp_error *err)
{
    char wanted[128], has[128], more[256];
    const mp_dataset *d = &file->set;
    int64_t part[MP_RANK_MAX];
    remedy(s, d, batch, more);
    if (has_rows(s, batch) && d->rank)
        return MP_FAIL(err, MP_INVALID, "a sample of the file is %s, but '%s' needs %s%s",
                       shape_text(d->rank - 1, d->dims + 1, " x ", has), s->name,
                       shape_text(sample_shape(s, batch, part), part, " x ", wanted), more);
    return MP_FAIL(err, MP_INVALID, "the file is %s, but '%s', which has no batch dimension, needs %s%s",
                   shape_text(d->rank, d->dims, " x ", has), s->name, shape_text(s->rank, s->dims, " x ", wanted), more);
}

/* If a sample is a whole input: decides for every file whether it is a stack of inputs or a single input. Fails if the files
 * have different numbers of samples. */
static mp_status settle_stacks(const mp_feed_slot *slots, size_t n, const readings *r, mp_sample_file *files, size_t *at,
                               int64_t *n_samples, mp_error *err)
{
    size_t first = n;
    char text[128];
    for (size_t k = 0; k < n; k++) {
        *at = k;
        files[k].form = r[k].stack >= 0 ? MP_SAMPLE_STACK : MP_SAMPLE_SHARED;
        MP_ENSURE(r[k].stack >= 0 || r[k].whole, err, MP_INVALID,
                  "another file is a stack of whole inputs, so '%s' needs %s, alone or as a stack of equal length",
                  slots[k].name, shape_text(slots[k].rank, slots[k].dims, " x ", text));
        if (r[k].stack < 0) continue;
        if (first == n) first = k;
        MP_ENSURE(r[k].stack == r[first].stack, err, MP_INVALID, "the file has %lld samples, but another file has %lld",
                  (long long)r[k].stack, (long long)r[first].stack);
        *n_samples = r[k].stack;
    }
    return MP_OK;
}

/* Decides for every file whether its rows are samples or the file is the whole input. An input whose first dimension is not the
 * batch, such as the edges of a graph, excludes samples: then all files have the shapes of their inputs. Inputs that are
 * broadcast along the batch fit any number of samples. */
static mp_status settle_rows(const mp_feed_slot *slots, size_t n, const readings *r, mp_sample_file *files, size_t *at,
                             int64_t batch, int64_t *n_samples, mp_error *err)
{
    size_t first = n, whole = n;
    for (size_t k = 0; k < n; k++) {
        *at = k;
        files[k].form = r[k].rows >= 0 ? MP_SAMPLE_ROWS : MP_SAMPLE_SHARED;
        if (r[k].rows < 0 && slots[k].rank && slots[k].dims[0] != 1) whole = k;
        if (r[k].rows < 0) continue;
        if (first == n) first = k;
        MP_ENSURE(r[k].rows == r[first].rows, err, MP_INVALID, "the file has %lld samples, but another file has %lld",
                  (long long)r[k].rows, (long long)r[first].rows);
    }
    *n_samples = first < n ? r[first].rows : batch;
    if (whole == n) return MP_OK;
    *at = first;
    MP_ENSURE(*n_samples == batch, err, MP_INVALID,
              "'%s' has no batch dimension, so '%s' needs %lld rows, not %lld; or give every input as a stack of whole inputs",
              slots[whole].name, slots[first].name, (long long)batch, (long long)*n_samples);
    return MP_OK;
}

bool mp_samples_lie_alike(const mp_feed_slot *a, const mp_feed_slot *b)
{
    return is_list(a->rank, a->dims) || is_like(a->rank, a->dims, b->rank, b->dims);
}

/* Decides for all files how their elements form samples. Sets *at to the input that was checked last, for the error message. */
static mp_status choose_sample_shapes(const mp_feed_slot *slots, size_t n_slots, mp_sample_file *files, int64_t *batch,
                                      int64_t *n_samples, size_t *at, mp_error *err)
{
    bool stacks = false;
    MP_OWNED readings *r = mp_alloc(n_slots + 1, sizeof *r);
    MP_ENSURE(r, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < n_slots; k++) {
        *at = k;
        r[k] = read(&slots[k], &files[k].set, *batch);
        if (r[k].rows < 0 && r[k].stack < 0 && !r[k].whole) return misfit(&slots[k], &files[k], *batch, err);
        stacks |= r[k].rows < 0 && !r[k].whole;
    }
    if (stacks)
        MP_CHECK(settle_stacks(slots, n_slots, r, files, at, n_samples, err));
    else
        MP_CHECK(settle_rows(slots, n_slots, r, files, at, *batch, n_samples, err));
    if (stacks) *batch = 1;
    return MP_OK;
}

mp_status mp_samples_settle(const mp_feed_slot *slots, size_t n_slots, mp_sample_file *files, int64_t *batch,
                            int64_t *n_samples, mp_error *err)
{
    size_t at = 0;
    const mp_status st = choose_sample_shapes(slots, n_slots, files, batch, n_samples, &at, err);
    if (st == MP_INVALID) mp_error_locate(err, files[at].path, 0, 0);
    return st;
}

int64_t mp_sample_elements(const mp_feed_slot *slot, const mp_sample_file *file, int64_t batch)
{
    const int64_t all = elements(slot->rank, slot->dims, 0);
    return file->form == MP_SAMPLE_ROWS ? all / batch : all;
}

mp_status mp_samples_all_ignored(const mp_feed_slot *s, int64_t n, mp_error *err)
{
    return MP_FAIL(err, MP_INVALID,
                   "all %lld labels of '%s' are %lld, which the loss ignores, so there is nothing to train on; ignore another "
                   "label with --ignore-index",
                   (long long)n, s->name, (long long)s->ignored);
}
