/* parquet.cc - a module that reads Parquet files through Arrow's C++ library. No other file of memplan uses Arrow. */
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/properties.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

extern "C" {
#include "formats/columnar/columnar_file.h"
}

namespace
{

struct open_file {
    mp_columnar_file base;
    std::unique_ptr<arrow::MemoryPool>
        pool; /* declared before the Arrow objects that use it, so that it is destroyed after them */
    std::unique_ptr<parquet::arrow::FileReader> reader;
    std::vector<int64_t> starts; /* per row group: index of its first row. The last entry is the total number of rows */
};

/* The rows of a column that have been read so far, and the position for the next row. */
struct sink {
    const char *name, *folder;
    mp_dataset set;
    int64_t row_bytes, filled_bytes, row; /* row: index of the first of the rows that are being appended */
    bool has_shape;
};

/* Returns the first line of an error message from Arrow. The other lines are source positions and stack traces. */
std::string first_line(const std::string &text)
{
    return text.substr(0, std::min<size_t>(text.find('\n'), 200));
}

mp_status failed(const arrow::Status &status, const char *what, mp_error *err)
{
    if (status.IsOutOfMemory()) return MP_FAIL(err, MP_NOMEM, "%s: %s", what, first_line(status.message()).c_str());
    return MP_FAIL(err, MP_PARSE, "%s cannot be read: %s", what, first_line(status.message()).c_str());
}

/* Calls a function and catches every exception that Arrow throws, because exceptions must not propagate into C. */
template <class Body> mp_status guarded(const char *what, mp_error *err, Body body)
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return MP_FAIL(err, MP_NOMEM, "%s: out of memory", what);
    } catch (const std::exception &e) {
        return MP_FAIL(err, MP_PARSE, "%s cannot be read: %s", what, first_line(e.what()).c_str());
    }
}

/* ---- values ---- */

bool is_list(const arrow::DataType &type)
{
    return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST || type.id() == arrow::Type::FIXED_SIZE_LIST;
}

mp_dtype number_type(const arrow::DataType &type)
{
    switch (type.id()) {
    case arrow::Type::FLOAT:
        return MP_DTYPE_FLOAT;
    case arrow::Type::DOUBLE:
        return MP_DTYPE_DOUBLE;
    case arrow::Type::INT32:
        return MP_DTYPE_INT32;
    case arrow::Type::INT64:
        return MP_DTYPE_INT64;
    case arrow::Type::UINT8:
        return MP_DTYPE_UINT8;
    default:
        return (mp_dtype)0;
    }
}

/* One list in an array of lists. Its elements are the values [begin, begin + n) of the column. */
struct extent {
    int64_t begin, n;
};

extent extent_of(const arrow::Array &lists, int64_t k)
{
    if (lists.type_id() == arrow::Type::LIST) {
        const auto &a = static_cast<const arrow::ListArray &>(lists);
        return {a.value_offset(k), a.value_length(k)};
    }
    if (lists.type_id() == arrow::Type::LARGE_LIST) {
        const auto &a = static_cast<const arrow::LargeListArray &>(lists);
        return {a.value_offset(k), a.value_length(k)};
    }
    const auto &a = static_cast<const arrow::FixedSizeListArray &>(lists);
    return {a.value_offset(k), a.value_length(k)};
}

const arrow::Array &values_of(const arrow::Array &lists)
{
    if (lists.type_id() == arrow::Type::LIST) return *static_cast<const arrow::ListArray &>(lists).values();
    if (lists.type_id() == arrow::Type::LARGE_LIST) return *static_cast<const arrow::LargeListArray &>(lists).values();
    return *static_cast<const arrow::FixedSizeListArray &>(lists).values();
}

/* Sets the row shape of a column from its first row, and allocates memory for n_rows rows. */
mp_status shape(sink &s, const arrow::Array &array, int64_t row, int64_t n_rows, mp_error *err)
{
    const arrow::Array *a = &array;
    int64_t k = row, bytes = n_rows;
    s.set.dims[s.set.rank++] = n_rows;
    for (; is_list(*a->type()); a = &values_of(*a)) {
        MP_ENSURE(s.set.rank < MP_DATASET_RANK, err, MP_INVALID, "column '%s' has lists in lists, more than %d deep", s.name,
                  MP_DATASET_RANK - 1);
        const extent e = k < a->length() && a->IsValid(k) ? extent_of(*a, k) : extent{0, 0};
        s.set.dims[s.set.rank++] = e.n;
        k = e.begin;
    }
    s.row_bytes = mp_dtype_bits(s.set.dtype) / 8;
    for (int d = 1; d < s.set.rank; d++)
        MP_ENSURE(mp_multiply(s.row_bytes, s.set.dims[d], &s.row_bytes), err, MP_PARSE, "rows of column '%s' are too large",
                  s.name);
    MP_ENSURE(mp_multiply(bytes, s.row_bytes, &bytes), err, MP_PARSE, "column '%s' is too large", s.name);
    s.has_shape = true;
    return mp_dataset_take_room(&s.set, s.name, bytes, s.folder, err);
}

/* Appends elements [from, from + n) of an array, which is nested `level` lists deep and has `per_row` elements per row. */
mp_status append(sink &s, const arrow::Array &a, int64_t from, int64_t n, int level, int64_t per_row, mp_error *err)
{
    if (!n) return MP_OK;
    for (int64_t k = 0; a.null_count() && k < n; k++)
        MP_ENSURE(a.IsValid(from + k), err, MP_INVALID, "row %lld of column '%s' %s null", (long long)(s.row + k / per_row),
                  s.name, level ? "has a" : "is");
    if (is_list(*a.type())) {
        const int64_t wanted = s.set.dims[level + 1];
        for (int64_t k = 0; k < n; k++) {
            const int64_t length = extent_of(a, from + k).n;
            MP_ENSURE(length == wanted, err, MP_INVALID,
                      "row %lld of column '%s' has a list of %lld, and those before it have %lld: all have to be as long",
                      (long long)(s.row + k / per_row), s.name, (long long)length, (long long)wanted);
        }
        return append(s, values_of(a), extent_of(a, from).begin, n * wanted, level + 1, per_row * wanted, err);
    }
    const int64_t size = mp_dtype_bits(s.set.dtype) / 8;
    const auto *numbers = a.data()->buffers[1]->data() + (a.offset() + from) * size;
    std::memcpy((uint8_t *)s.set.owned + s.filled_bytes, numbers, (size_t)(n * size));
    s.filled_bytes += n * size;
    return MP_OK;
}

/* ---- columns ---- */

const parquet::arrow::SchemaField *find(const open_file &f, const char *name)
{
    for (const auto &field : f.reader->manifest().schema_fields)
        if (field.field->name() == name) return &field;
    return nullptr;
}

/* Lists the first columns of the file, for the error message about an unknown column. */
std::string names(const open_file &f)
{
    std::string text;
    const auto &fields = f.reader->manifest().schema_fields;
    for (size_t k = 0; k < fields.size() && k < 5; k++) text += (k ? ", '" : "'") + fields[k].field->name().substr(0, 40) + "'";
    if (fields.size() > 5) text += " and " + std::to_string(fields.size() - 5) + " more";
    return fields.empty() ? "none" : text;
}

mp_status find_leaf(const open_file &f, sink &s, int *leaf, mp_error *err)
{
    const parquet::arrow::SchemaField *field = find(f, s.name);
    MP_ENSURE(field, err, MP_INVALID, "there is no column '%s'; those of the file: %s", s.name, names(f).c_str());
    const arrow::DataType *type = field->field->type().get();
    while (is_list(*type)) type = type->field(0)->type().get();
    s.set.dtype = number_type(*type);
    for (; s.set.dtype && field->children.size() == 1; field = &field->children[0]) continue;
    MP_ENSURE(s.set.dtype && field->column_index >= 0, err, MP_INVALID,
              "column '%s' holds %.80s: float32, float64, int32, int64, uint8 and lists of them can be read", s.name,
              type->ToString().c_str());
    *leaf = field->column_index;
    return MP_OK;
}

/* Appends those rows of a row group that are in the requested ranges. */
mp_status read_group(open_file &f, sink &s, int group, int leaf, const mp_row_range *ranges, size_t n, int64_t n_rows,
                     mp_error *err)
{
    const int64_t begin = f.starts[(size_t)group], end = f.starts[(size_t)group + 1];
    const std::string what = "row group " + std::to_string(group) + " of column '" + s.name + "'";
    bool is_asked = false;
    for (size_t k = 0; k < n; k++) is_asked |= ranges[k].from < end && ranges[k].from + ranges[k].n > begin;
    if (!is_asked) return MP_OK;
    const auto table = f.reader->ReadRowGroup(group, {leaf});
    if (!table.ok()) return failed(table.status(), what.c_str(), err);
    MP_ENSURE((*table)->num_rows() == end - begin && (*table)->num_columns() == 1, err, MP_PARSE,
              "%s has %lld rows, and %lld are announced", what.c_str(), (long long)(*table)->num_rows(),
              (long long)(end - begin));
    for (size_t k = 0; k < n; k++) {
        int64_t first = begin;
        for (const auto &chunk : (*table)->column(0)->chunks()) {
            const int64_t from = std::max(ranges[k].from, first),
                          to = std::min(ranges[k].from + ranges[k].n, first + chunk->length());
            const arrow::Status sound = chunk->Validate();
            if (!sound.ok()) return failed(sound, what.c_str(), err);
            if (from < to && !s.has_shape) MP_CHECK(shape(s, *chunk, from - first, n_rows, err));
            s.row = from;
            if (from < to) MP_CHECK(append(s, *chunk, from - first, to - from, 0, 1, err));
            first += chunk->length();
        }
    }
    return MP_OK;
}

mp_status read_ranges(open_file &f, sink &s, const mp_row_range *ranges, size_t n, mp_error *err)
{
    int leaf = -1;
    int64_t n_rows = 0;
    for (size_t k = 0; k < n; k++) n_rows += ranges[k].n;
    MP_CHECK(find_leaf(f, s, &leaf, err));
    for (int g = 0; g < f.reader->num_row_groups(); g++) MP_CHECK(read_group(f, s, g, leaf, ranges, n, n_rows, err));
    MP_ENSURE(s.has_shape && s.filled_bytes == n_rows * s.row_bytes, err, MP_PARSE,
              "column '%s' has fewer rows than are announced", s.name);
    return MP_OK;
}

mp_status read(mp_columnar_file *self, const char *name, const mp_row_range *ranges, size_t n, mp_dataset *out, mp_error *err)
{
    open_file *f = reinterpret_cast<open_file *>(self);
    sink s{};
    s.name = name;
    s.folder = self->folder;
    const mp_status st = guarded(name, err, [&] { return read_ranges(*f, s, ranges, n, err); });
    if (st != MP_OK)
        mp_dataset_close(&s.set);
    else
        *out = s.set;
    return st;
}

/* ---- files ---- */

void close(mp_columnar_file *self)
{
    delete reinterpret_cast<open_file *>(self);
}

/* a damaged file may state any size, so allocations are limited to the memory of the machine */
int64_t memory_bytes()
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

mp_status open_reader(open_file &f, std::shared_ptr<arrow::io::RandomAccessFile> source, mp_error *err)
{
    parquet::ReaderProperties properties(f.pool.get());
    parquet::arrow::FileReaderBuilder builder;
    properties.set_page_checksum_verification(true);
    arrow::Status status = builder.Open(std::move(source), properties);
    if (!status.ok()) return failed(status, "the file", err);
    builder.memory_pool(f.pool.get());
    status = builder.Build(&f.reader);
    if (!status.ok()) return failed(status, "the file", err);
    const auto metadata = f.reader->parquet_reader()->metadata();
    f.base.n_rows = metadata->num_rows();
    f.starts.push_back(0);
    for (int g = 0; g < f.reader->num_row_groups(); g++) {
        const int64_t rows = metadata->RowGroup(g)->num_rows();
        MP_ENSURE(rows >= 0 && rows <= f.base.n_rows - f.starts.back(), err, MP_PARSE,
                  "row group %d has %lld rows, more than the file has", g, (long long)rows);
        f.starts.push_back(f.starts.back() + rows);
    }
    MP_ENSURE(f.starts.back() == f.base.n_rows, err, MP_PARSE, "the row groups have %lld rows, and the file %lld",
              (long long)f.starts.back(), (long long)f.base.n_rows);
    return MP_OK;
}

mp_status open_path(const char *path, mp_columnar_file **out, mp_error *err)
{
    auto source = arrow::io::ReadableFile::Open(path);
    MP_ENSURE(source.ok(), err, MP_IO, "%s", first_line(source.status().message()).c_str());
    auto f = std::make_unique<open_file>();
    f->base.read = read;
    f->base.close = close;
    f->pool = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), memory_bytes());
    MP_CHECK(open_reader(*f, *source, err));
    *out = &f.release()->base;
    return MP_OK;
}

} // namespace

extern "C" __attribute__((visibility("default"))) mp_status mp_module_columnar(const char *path, mp_columnar_file **out,
                                                                               mp_error *err)
{
    return guarded("the file", err, [&] { return open_path(path, out, err); });
}
