/* test_pack_csv.c - formats/pack_csv: reads all values, refuses malformed files with line and column, and reads back written
 * files. */
#include <unistd.h>

#include "estimator/base/memory.h"
#include "memplan/pack_csv.h"
#include "tests/cases/test.h"

static char path[] = "/tmp/memplan-pack-XXXXXX";

static void put_bytes(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static mp_pack_table read_text(const char *text)
{
    mp_pack_table table = {0};
    mp_error err = {0};
    put_bytes(text, strlen(text));
    if (mp_pack_csv_read(path, &table, &err) != MP_OK) fail_msg("line %d: %s", err.line, err.message);
    return table;
}

static void expect_item(const mp_pack_table *t, int k, int64_t alignment, int64_t fixed, int n_pieces)
{
    assert_int_equal(t->packing.items[k].alignment, alignment);
    assert_int_equal(t->packing.items[k].fixed, fixed);
    assert_int_equal(t->packing.items[k].n_pieces, n_pieces);
}

static void expect_piece(const mp_pack_table *t, int item, int piece, int64_t lower, int64_t upper, int64_t size)
{
    const mp_pack_piece *p = &t->packing.pieces[t->packing.items[item].piece + piece];
    assert_int_equal(p->begin, lower);
    assert_int_equal(p->end, upper);
    assert_int_equal(p->size, size);
}

TEST(rows_become_items)
{
    mp_pack_table t = read_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,40\n");
    assert_int_equal(t.packing.n_items, 2);
    expect_item(&t, 0, 1, -1, 1);
    expect_piece(&t, 0, 0, 0, 3, 4);
    expect_piece(&t, 1, 0, 3, 9, 40);
    mp_pack_table_free(&t);
    /* CRLF, empty lines at the end, no newline at the end, no rows */
    t = read_text("id,lower,upper,size\r\nb1,0,3,4\r\nb2,3,9,40\r\n\r\n\n");
    assert_int_equal(t.packing.n_items, 2);
    expect_piece(&t, 1, 0, 3, 9, 40);
    assert_string_equal(t.rows[1], "b2,3,9,40");
    mp_pack_table_free(&t);
    t = read_text("id,lower,upper,size\nb1,0,3,4");
    assert_int_equal(t.packing.n_items, 1);
    mp_pack_table_free(&t);
    t = read_text("id,lower,upper,size");
    assert_int_equal(t.packing.n_items, 0);
    mp_pack_table_free(&t);
}

TEST(columns_have_any_order_and_other_names)
{
    mp_pack_table t = read_text("size,colour,end,start,buffer,alignment\n7,red,8,2,x,4\n");
    expect_item(&t, 0, 4, -1, 1);
    expect_piece(&t, 0, 0, 2, 9, 7); /* end is the last time of the piece, inclusive */
    assert_string_equal(t.rows[0], "7,red,8,2,x,4");
    mp_pack_table_free(&t);
    t = read_text("offset,begin,upper,buffer_id,size\n12,0,1,a,5\n,0,1,b,5\n");
    expect_item(&t, 0, 1, 12, 1);
    expect_item(&t, 1, 1, -1, 1);
    assert_string_equal(t.header, "begin,upper,buffer_id,size");
    assert_string_equal(t.rows[0], "0,1,a,5");
    mp_pack_table_free(&t);
    t = read_text("id,lower,offset,upper,size\na,0,12,1,5\nb,0,,1,5\n");
    assert_string_equal(t.rows[0], "a,0,1,5");
    assert_string_equal(t.rows[1], "b,0,1,5");
    mp_pack_table_free(&t);
}

TEST(gaps_cut_a_life_into_pieces)
{
    mp_pack_table t = read_text("id,lower,upper,size,gaps\na,0,20,64,5-7  9-12@0:16\nb,0,4,8,\nc,2,9,8,2-3 8-9\n");
    expect_item(&t, 0, 1, -1, 4);
    expect_piece(&t, 0, 0, 0, 5, 64);
    expect_piece(&t, 0, 1, 7, 9, 64);
    expect_piece(&t, 0, 2, 9, 12, 16);
    expect_piece(&t, 0, 3, 12, 20, 64);
    expect_item(&t, 1, 1, -1, 1);
    expect_item(&t, 2, 1, -1, 1);
    expect_piece(&t, 2, 0, 3, 8, 8);
    mp_pack_table_free(&t);
    t = read_text("id,lower,end,size,gaps\na,0,19,64,5-6\n");
    expect_piece(&t, 0, 0, 0, 5, 64);
    expect_piece(&t, 0, 1, 7, 20, 64);
    mp_pack_table_free(&t);
}

TEST(what_is_written_can_be_read_again)
{
    char text[256] = "";
    mp_pack_table t = read_text("id,offset,lower,upper,size\r\na,,0,3,4\r\nb,4,0,9,40\r\n");
    t.packing.items[0].offset = 0;
    t.packing.items[1].offset = 4;
    assert_int_equal(mp_pack_csv_write(&t, path, NULL), MP_OK);
    mp_pack_table_free(&t);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(text, 1, sizeof text - 1, f) > 0, 1);
    fclose(f);
    assert_string_equal(text, "id,lower,upper,size,offset\na,0,3,4,0\nb,0,9,40,4\n");
    assert_int_equal(mp_pack_csv_read(path, &t, NULL), MP_OK);
    expect_item(&t, 0, 1, 0, 1);
    expect_item(&t, 1, 1, 4, 1);
    mp_error err = {0};
    assert_int_equal(mp_pack_csv_write(&t, "/no/such/folder.csv", &err), MP_IO);
    mp_pack_table_free(&t);
}

TEST(what_is_malformed_is_refused_with_its_place)
{
#define HEAD "id,lower,upper,size\n"
    static const struct {
        const char *text;
        int line, column;
        const char *why;
    } cases[] = {
        {"", 1, 1, "the file is empty"},
        {"\n", 1, 1, "no column 'id'"},
        {"id,lower,upper\na,0,1\n", 1, 1, "no column 'size'"},
        {"id,upper,size\na,0,1\n", 1, 1, "no column 'lower'"},
        {"id,lower,size\na,0,1\n", 1, 1, "no column 'upper'"},
        {"Id,lower,upper,size\na,0,1,1\n", 1, 1, "no column 'id'"},
        {"a,0,1,1\n", 1, 1, "no column 'id'"},
        {"id,lower,upper,size,lower\n", 1, 21, "column 'lower' repeats column 'lower'"},
        {"id,lower,upper,size,end\n", 1, 21, "column 'end' repeats column 'upper'"},
        {"\"id\",lower,upper,size\n", 1, 1, "not quoted"},
        {HEAD "\"a\",0,1,1\n", 2, 1, "not quoted"},
        {HEAD "a,0,1\n", 2, 1, "has 3 fields and the first line names 4"},
        {HEAD "a,0,1,1,1\n", 2, 1, "has 5 fields and the first line names 4"},
        {HEAD ",0,1,1\n", 2, 1, "the id is empty"},
        {HEAD "a,x,1,1\n", 2, 3, "'x' is no whole number"},
        {HEAD "a,,1,1\n", 2, 3, "'' is no whole number"},
        {HEAD "a,0,1.5,1\n", 2, 5, "'1.5' is no whole number"},
        {HEAD "a,0,1,1e3\n", 2, 7, "'1e3' is no whole number"},
        {HEAD "a,0,1, 1\n", 2, 7, "' 1' is no whole number"},
        {HEAD "a,-1,1,1\n", 2, 3, "'-1' is no whole number"},
        {HEAD "a,0,1,-8\n", 2, 7, "'-8' is no whole number"},
        {HEAD "a,0,1,99999999999999999999\n", 2, 7, "'99999999999999999999' is no whole number"},
        {HEAD "a,0,9223372036854775807,1\n", 2, 5, "is no whole number"},
        {HEAD "a,3,3,1\n", 2, 5, "buffer 'a' ends before it begins"},
        {HEAD "a,4,3,1\n", 2, 5, "buffer 'a' ends before it begins"},
        {HEAD "a,0,1,0\n", 2, 7, "buffer 'a' has no bytes"},
        {HEAD "a,0,1,1\nb,0,1,1\na,0,1,1\n", 4, 1, "there is a buffer 'a' already"},
        {HEAD "a,0,1,1\r\n\r\nb,0,1,1\r\n", 3, 1, "the line is empty"},
        {HEAD "a\rb,0,1,1\n", 2, 1, "not text"},
        {"id,lower,upper,size,alignment\na,0,1,1,0\n", 2, 9, "an alignment is at least 1"},
        {"id,lower,upper,size,alignment\na,0,1,1,\n", 2, 9, "'' is no whole number"},
        {"id,lower,upper,size,offset\na,0,1,1,-1\n", 2, 9, "'-1' is no whole number"},
        {"id,lower,upper,size,alignment,offset\na,0,1,1,4,6\n", 2, 11, "offset 6 is no multiple of the alignment 4"},
        {"id,lower,upper,size,gaps\na,0,9,1,3\n", 2, 9, "a gap is written as"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-5 6-7@\n", 2, 13, "a gap is written as"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-5x\n", 2, 9, "a gap is written as"},
        {"id,lower,upper,size,gaps\na,0,9,1,5-5\n", 2, 9, "within the buffer's life"},
        {"id,lower,upper,size,gaps\na,0,9,1,5-10\n", 2, 9, "within the buffer's life"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-5 4-7\n", 2, 13, "within the buffer's life"},
        {"id,lower,upper,size,gaps\na,0,9,8,3-5@4:8\n", 2, 9, "only the first bytes"},
        {"id,lower,upper,size,gaps\na,0,9,8,3-5@0:9\n", 2, 9, "only the first bytes"},
        {"id,lower,upper,size,gaps\na,0,9,8,0-9\n", 2, 9, "leave nothing of the buffer"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_pack_table t = {0};
        mp_error err = {0};
        put_bytes(cases[k].text, strlen(cases[k].text));
        const mp_status st = mp_pack_csv_read(path, &t, &err);
        if (st != MP_PARSE || err.line != cases[k].line || err.column != cases[k].column || !strstr(err.message, cases[k].why))
            fail_msg("%s%d:%d: %s, not %d:%d: %s", cases[k].text, err.line, err.column, err.message, cases[k].line,
                     cases[k].column, cases[k].why);
        if (strcmp(err.input, path) != 0) fail_msg("%s: where is it from?", err.message);
    }
    mp_pack_table t = {0};
    mp_error err = {0};
    put_bytes(HEAD "a\0b,0,1,1\n", sizeof HEAD "a\0b,0,1,1\n" - 1);
    assert_int_equal(mp_pack_csv_read(path, &t, &err), MP_PARSE);
    assert_int_equal(mp_pack_csv_read("/no/such/file.csv", &t, NULL), MP_IO);
    assert_int_equal(mp_pack_csv_read("/", &t, NULL), MP_IO);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(too_many_columns_are_refused)
{
    char text[400] = HEAD;
    mp_pack_table t = {0};
    mp_error err = {0};
    memset(text + strlen(text) - 1, ',', 100);
    put_bytes(text, strlen(text));
    assert_int_equal(mp_pack_csv_read(path, &t, &err), MP_PARSE);
    assert_non_null(strstr(err.message, "more than 64 columns"));
}

TEST(every_allocation_may_fail)
{
    put_bytes(HEAD "a,0,3,4\nb,0,9,40\n", strlen(HEAD "a,0,3,4\nb,0,9,40\n"));
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_pack_table t = {0};
        mp_error err = {0};
        mp_alloc_budget = k;
        st = mp_pack_csv_read(path, &t, &err);
        if (st == MP_OK) st = mp_pack_csv_write(&t, "/dev/null", &err);
        mp_alloc_budget = -1;
        mp_pack_table_free(&t);
        if (st != MP_OK) assert_true(st == MP_NOMEM && err.message[0]);
        assert_int_equal(mp_alloc_live, 0);
    }
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    return test_run(make_file, remove_file);
}
