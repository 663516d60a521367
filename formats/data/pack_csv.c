/* pack_csv.c - reads the rows of a CSV file as items with lifetimes and gaps, and writes the rows with the items' offsets. */
#include "memplan/pack_csv.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"

enum { FILE_MAX = 256 << 20, COLUMNS_MAX = 64 };

#define NUMBER_MAX (INT64_MAX / 4)

enum meaning { ID, LOWER, UPPER, SIZE, ALIGNMENT, OFFSET, GAPS, OTHER, N_MEANINGS = OTHER };

static const struct column_name {
    const char *name;
    enum meaning meaning;
    bool is_last; /* true: the column states the last time at which an item is live; false: the first time at which it is no
                     longer live */
} column_names[] = {
    {"id", ID, false},       {"buffer", ID, false},           {"buffer_id", ID, false},  {"lower", LOWER, false},
    {"begin", LOWER, false}, {"start", LOWER, false},         {"upper", UPPER, false},   {"end", UPPER, true},
    {"size", SIZE, false},   {"alignment", ALIGNMENT, false}, {"offset", OFFSET, false}, {"gaps", GAPS, false}};

typedef struct text { /* a part of the file: `length` bytes from `at` */
    const char *at;
    size_t length;
} text;

typedef struct row_id {
    text id;
    int line, column;
} row_id;

typedef struct reader {
    mp_pack_table *table;
    const char *path, *at, *end; /* path: path of the file. [at, end): the bytes of the file that have not been read yet */
    const char *line_at;
    int line;
    text fields[COLUMNS_MAX];
    int n_fields, n_columns;
    /* per kind of column (ID, LOWER, ...): index of the file's column of this kind; -1: the file has no such column */
    int column[N_MEANINGS];
    int64_t after_last; /* 1 if upper bounds in the file are inclusive, else 0; it is added to each upper bound */
    size_t rows_capacity, items_capacity, pieces_capacity, ids_capacity;
    row_id *ids;
    char **rows;
    mp_pack_item *items;
    mp_pack_piece *pieces;
    mp_error *err;
} reader;

#define REFUSE(r, where, ...) \
    MP_FAIL_AT((r)->err, MP_PARSE, (r)->path, (r)->line, (int)((where) - (r)->line_at) + 1, __VA_ARGS__)

/* Returns how many bytes of a text a message shows. */
static int shown(text t)
{
    return t.length < 40 ? (int)t.length : 40;
}

static mp_status split(reader *r)
{
    const char *line_end = memchr(r->at, '\n', (size_t)(r->end - r->at)), *next;
    if (!line_end) line_end = r->end;
    next = line_end < r->end ? line_end + 1 : line_end;
    r->line++;
    r->line_at = r->at;
    if (line_end > r->at && line_end[-1] == '\r') line_end--;
    r->n_fields = 0;
    for (const char *at = r->at;; at++) {
        const char *comma = memchr(at, ',', (size_t)(line_end - at)), *to = comma ? comma : line_end;
        if (r->n_fields == COLUMNS_MAX) return REFUSE(r, at, "there are more than %d columns", COLUMNS_MAX);
        if (memchr(at, '"', (size_t)(to - at))) return REFUSE(r, at, "fields are not quoted in this format");
        if (memchr(at, '\0', (size_t)(to - at)) || memchr(at, '\r', (size_t)(to - at)))
            return REFUSE(r, at, "the field contains bytes that are not text");
        r->fields[r->n_fields++] = (text){at, (size_t)(to - at)};
        if (!comma) break;
        at = comma;
    }
    r->at = next;
    return MP_OK;
}

static mp_status read_header(reader *r)
{
    for (int m = 0; m < N_MEANINGS; m++) r->column[m] = -1;
    MP_CHECK(split(r));
    r->n_columns = r->n_fields;
    for (int f = 0; f < r->n_fields; f++) {
        const text name = r->fields[f];
        for (size_t k = 0; k < sizeof column_names / sizeof *column_names; k++) {
            const struct column_name *c = &column_names[k];
            if (strlen(c->name) != name.length || memcmp(c->name, name.at, name.length) != 0) continue;
            if (r->column[c->meaning] >= 0)
                MP_CHECK(REFUSE(r, name.at, "column '%s' repeats column '%.*s'; remove one of them", c->name,
                                shown(r->fields[r->column[c->meaning]]), r->fields[r->column[c->meaning]].at));
            r->column[c->meaning] = f;
            r->after_last |= c->is_last;
        }
    }
    for (int m = ID; m <= SIZE; m++)
        if (r->column[m] < 0)
            MP_CHECK(REFUSE(r, r->line_at, "there is no column '%s': the first line has to name id, lower, upper and size",
                            m == ID      ? "id"
                            : m == LOWER ? "lower"
                            : m == UPPER ? "upper"
                                         : "size"));
    return MP_OK;
}

/* Reads a non-negative integer at the start of *from, and advances *from. Returns false if there is no integer, or it is too
 * large. */
static bool take_number(text *from, int64_t *number)
{
    size_t k = 0;
    *number = 0;
    for (; k < from->length && from->at[k] >= '0' && from->at[k] <= '9'; k++) {
        if (*number > (NUMBER_MAX - 9) / 10) return false;
        *number = *number * 10 + (from->at[k] - '0');
    }
    from->at += k;
    from->length -= k;
    return k > 0;
}

static bool take(text *from, char c)
{
    if (!from->length || *from->at != c) return false;
    from->at++;
    from->length--;
    return true;
}

static mp_status number_of(const reader *r, enum meaning meaning, int64_t *number)
{
    const text field = r->fields[r->column[meaning]], name = field;
    text left = field;
    if (take_number(&left, number) && !left.length) return MP_OK;
    return REFUSE(r, field.at, "'%.*s' is no whole number from 0 to %lld", shown(name), name.at, (long long)NUMBER_MAX);
}

static mp_status add_piece(reader *r, mp_pack_item *item, int64_t lower, int64_t upper, int64_t size)
{
    size_t *n = &r->table->packing.n_pieces;
    if (lower == upper || !size) return MP_OK;
    if (*n >= INT32_MAX / 4 || !mp_grow(&r->pieces, &r->pieces_capacity, *n + 1, sizeof *r->pieces))
        return MP_NO_MEMORY(r->err);
    r->pieces[(*n)++] = (mp_pack_piece){lower, upper, size};
    item->n_pieces++;
    return MP_OK;
}

/* Adds the pieces of an item that has gaps, such as "5-7 9-12@0:64". During a gap the item is absent, or only its first
 * bytes are live. */
static mp_status add_pieces(reader *r, mp_pack_item *item, int64_t lower, int64_t upper, int64_t size)
{
    text left = r->column[GAPS] < 0 ? (text){"", 0} : r->fields[r->column[GAPS]];
    item->piece = (int)r->table->packing.n_pieces;
    for (;;) {
        int64_t from, to, low = 0, high = 0;
        while (take(&left, ' ')) continue;
        if (!left.length) break;
        const char *where = left.at;
        bool formed = take_number(&left, &from) && take(&left, '-') && take_number(&left, &to);
        if (formed && take(&left, '@')) formed = take_number(&left, &low) && take(&left, ':') && take_number(&left, &high);
        if (!formed || (left.length && *left.at != ' ')) MP_CHECK(REFUSE(r, where, "a gap is written as 5-7, or as 5-7@0:64"));
        to += r->after_last;
        if (from < lower || from >= to || to > upper)
            MP_CHECK(REFUSE(r, where, "a gap must be within the buffer's lifetime and after the previous gap"));
        if (low || high > size) MP_CHECK(REFUSE(r, where, "only the first bytes of a buffer can be left in a gap: @0:BYTES"));
        MP_CHECK(add_piece(r, item, lower, from, size));
        MP_CHECK(add_piece(r, item, from, to, high));
        lower = to;
    }
    MP_CHECK(add_piece(r, item, lower, upper, size));
    if (!item->n_pieces) MP_CHECK(REFUSE(r, r->fields[r->column[GAPS]].at, "the gaps leave nothing of the buffer"));
    return MP_OK;
}

/* Returns a copy of the current line without the field in the offset column. */
static char *row_text(const reader *r)
{
    const text *last = &r->fields[r->n_fields - 1];
    const char *end = last->at + last->length;
    char *row = mp_pool_text(r->table->pool, r->line_at, (size_t)(end - r->line_at));
    if (!row || r->column[OFFSET] < 0) return row;
    const text *offset = &r->fields[r->column[OFFSET]];
    const size_t from = (size_t)(offset->at - r->line_at), first = r->column[OFFSET] == 0;
    size_t skip =
        offset->length +
        (r->n_fields >
         1); /* range of bytes to omit: the field, and the comma before it. If it is the first field, the comma after it */
    memmove(row + from - !first, row + from - !first + skip, strlen(row) - (from - !first + skip) + 1);
    return row;
}

static mp_status read_row(reader *r)
{
    mp_pack_table *t = r->table;
    const size_t n = t->packing.n_items;
    mp_pack_item item = {.alignment = 1, .fixed = -1};
    int64_t lower, upper, size;
    if (r->n_fields != r->n_columns)
        MP_CHECK(REFUSE(r, r->line_at, "the line has %d fields and the first line names %d", r->n_fields, r->n_columns));
    const text id = r->fields[r->column[ID]];
    if (!id.length) MP_CHECK(REFUSE(r, id.at, "the id is empty"));
    MP_CHECK(number_of(r, LOWER, &lower));
    MP_CHECK(number_of(r, UPPER, &upper));
    MP_CHECK(number_of(r, SIZE, &size));
    upper += r->after_last;
    if (lower >= upper)
        MP_CHECK(REFUSE(r, r->fields[r->column[UPPER]].at, "buffer '%.*s' ends before it begins", shown(id), id.at));
    if (!size) MP_CHECK(REFUSE(r, r->fields[r->column[SIZE]].at, "buffer '%.*s' has no bytes", shown(id), id.at));
    if (r->column[ALIGNMENT] >= 0) MP_CHECK(number_of(r, ALIGNMENT, &item.alignment));
    if (!item.alignment) MP_CHECK(REFUSE(r, r->fields[r->column[ALIGNMENT]].at, "an alignment is at least 1"));
    if (r->column[OFFSET] >= 0 && r->fields[r->column[OFFSET]].length) MP_CHECK(number_of(r, OFFSET, &item.fixed));
    if (item.fixed > 0 && item.fixed % item.alignment)
        MP_CHECK(REFUSE(r, r->fields[r->column[OFFSET]].at, "offset %lld is no multiple of the alignment %lld",
                        (long long)item.fixed, (long long)item.alignment));
    MP_CHECK(add_pieces(r, &item, lower, upper, size));
    if (n >= INT32_MAX / 8 || !mp_grow(&r->items, &r->items_capacity, n + 1, sizeof *r->items) ||
        !mp_grow(&r->rows, &r->rows_capacity, n + 1, sizeof *r->rows) ||
        !mp_grow(&r->ids, &r->ids_capacity, n + 1, sizeof *r->ids) || !(r->rows[n] = row_text(r)))
        return MP_NO_MEMORY(r->err);
    r->ids[n] = (row_id){id, r->line, (int)(id.at - r->line_at) + 1};
    r->items[n] = item;
    t->packing.n_items++;
    return MP_OK;
}

static int by_id(const void *a, const void *b)
{
    const row_id *x = a, *y = b;
    const size_t n = x->id.length < y->id.length ? x->id.length : y->id.length;
    const int order = memcmp(x->id.at, y->id.at, n);
    if (order) return order;
    if (x->id.length != y->id.length) return x->id.length < y->id.length ? -1 : 1;
    return x->line - y->line;
}

/* Checks that no id occurs twice. The error names the first line that repeats an id. */
static mp_status check_ids(reader *r)
{
    const row_id *again = NULL;
    const size_t n = r->table->packing.n_items;
    if (n) qsort(r->ids, n, sizeof *r->ids, by_id);
    for (size_t k = 1; k < n; k++) {
        const row_id *a = &r->ids[k - 1], *b = &r->ids[k];
        if (a->id.length == b->id.length && !memcmp(a->id.at, b->id.at, a->id.length) && (!again || b->line < again->line))
            again = b;
    }
    if (!again) return MP_OK;
    return MP_FAIL_AT(r->err, MP_PARSE, r->path, again->line, again->column, "there is a buffer '%.*s' already",
                      shown(again->id), again->id.at);
}

static mp_status read_table(reader *r)
{
    int empty =
        0; /* line number of the first of the current consecutive empty lines; they are an error only if a row follows */
    r->table->pool = mp_pool_new();
    MP_ENSURE(r->table->pool, r->err, MP_NOMEM, "no memory for the buffers");
    if (r->at == r->end) return MP_FAIL_AT(r->err, MP_PARSE, r->path, 1, 1, "the file is empty");
    MP_CHECK(read_header(r));
    MP_ENSURE(r->table->header = row_text(r), r->err, MP_NOMEM, "no memory for the buffers");
    while (r->at < r->end) {
        MP_CHECK(split(r));
        if (r->n_fields == 1 && !r->fields[0].length) {
            if (!empty) empty = r->line;
            continue;
        }
        if (empty) {
            r->line = empty;
            MP_CHECK(REFUSE(r, r->line_at, "the line is empty and others follow"));
        }
        MP_CHECK(read_row(r));
    }
    return check_ids(r);
}

mp_status mp_pack_csv_read(const char *path, mp_pack_table *out, mp_error *err)
{
    MP_CLEARED_BY(mp_file_close) mp_file file = {0};
    mp_error own = {0};
    MP_CLEARED_BY(mp_pack_table_free) mp_pack_table table = {0};
    reader r = {.table = &table, .path = path, .err = err ? err : &own};
    MP_CHECK(mp_file_open(path, FILE_MAX, &file, err));
    r.at = (const char *)file.bytes;
    r.end = r.at + file.size;
    const mp_status st = read_table(&r);
    mp_free(r.ids);
    table.rows = r.rows;
    table.packing.items = r.items;
    table.packing.pieces = r.pieces;
    MP_CHECK(st);
    *out = table;
    table = (mp_pack_table){0};
    return MP_OK;
}

void mp_pack_table_free(mp_pack_table *table)
{
    mp_free(table->rows);
    mp_free(table->packing.items);
    mp_free((mp_pack_piece *)table->packing.pieces);
    mp_pool_free(table->pool);
}

mp_status mp_pack_csv_write(const mp_pack_table *table, const char *path, mp_error *err)
{
    const size_t n = table->packing.n_items;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED mp_file_part *parts = mp_alloc(2 * n + 2, sizeof *parts);
    MP_ENSURE(pool && parts, err, MP_NOMEM, "no memory for %zu buffers", n);
    for (size_t k = 0; k <= n; k++) {
        const char *row = k ? table->rows[k - 1] : table->header;
        const char *offset = k ? mp_pool_format(pool, ",%lld\n", (long long)table->packing.items[k - 1].offset) : ",offset\n";
        MP_ENSURE(offset, err, MP_NOMEM, "no memory for %zu buffers", n);
        parts[2 * k] = (mp_file_part){row, strlen(row)};
        parts[2 * k + 1] = (mp_file_part){offset, strlen(offset)};
    }
    return mp_file_write_parts(path, parts, 2 * n + 2, err);
}
