/* test_canvas.c - pictures: the files contain the drawn shapes and texts, for all kinds of names. */
#include "formats/canvas/canvas.h"

#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "tests/cases/test.h"

enum { CONTENTS_MAX = 1 << 22 };
static char folder[64], contents[CONTENTS_MAX], again[CONTENTS_MAX];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/memplan-canvas-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Removes the pictures named by the tests; the folder must then be empty. */
static int remove_folder(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        char path[96];
        snprintf(path, sizeof path, "%s/p.%s", folder, (const char *[]){"svg", "PNG", "pdf"}[k]);
        unlink(path);
    }
    return rmdir(folder);
}

/* Writes the picture as folder/p.ENDING and reads it into `to`, followed by a NUL. Returns its size. */
static size_t written(const mp_canvas *canvas, const char *ending, char *to)
{
    mp_error err = {0};
    mp_file file;
    char path[96];
    size_t size;
    snprintf(path, sizeof path, "%s/p.%s", folder, ending);
    if (mp_canvas_write(canvas, path, &err) != MP_OK) fail_msg("%s", err.message);
    if (mp_file_open(path, CONTENTS_MAX - 1, &file, &err) != MP_OK) fail_msg("%s", err.message);
    size = file.size;
    memcpy(to, file.bytes, size);
    to[size] = '\0';
    mp_file_close(&file);
    return size;
}

static mp_status draw(mp_canvas **out, mp_error *err)
{
    MP_OWNED_BY(mp_canvas_free) mp_canvas *c = NULL;
    MP_CHECK(mp_canvas_new(800, 400, &c, err));
    mp_canvas_heading(c, 10, 370, 20, "a \"title\" -- <b> & &amp; \xC3\xA9 \xF0\x9F\x98\x80");
    mp_canvas_area(c, (double[]){10, 10, 400, 200, 790, 10}, 3, "#cbd5e1");
    mp_canvas_box(c, 100, 100, 200, 100, "#3b82f6", "#0f172a", NULL);
    mp_canvas_box(c, 500, 100, 100, 50, "#f59e0b", NULL, "<t&amp;\"q'\\n\\N \\\\ -- \nline 2 \xC3\xA9 \xFF\x01 &");
    mp_canvas_line(c, (double[]){0, 0, 800, 400}, 2, "#dc2626", 1.5, true);
    mp_canvas_dot(c, 400, 200, 5, "#0f172a");
    mp_canvas_text(c, 400, 300, MP_ALIGN_CENTER, 14, true, "#0f172a", "<b>bold & &lt; \\N \"q\"\nnext \xFF");
    mp_canvas_text(c, 10.255, 330, MP_ALIGN_LEFT, 14, false, "#0f172a", "plain & &lt; \xC3\xA9");
    *out = c;
    c = NULL;
    return MP_OK;
}

static mp_canvas *drawn(void)
{
    mp_error err = {0};
    mp_canvas *canvas = NULL;
    if (draw(&canvas, &err) != MP_OK) fail_msg("%s", err.message);
    return canvas;
}

static void assert_in(const char *piece)
{
    if (!strstr(contents, piece)) fail_msg("'%s' is not in: %.6000s", piece, contents);
}

TEST(svg_says_what_was_drawn_where)
{
    mp_canvas *canvas = drawn();
    written(canvas, "svg", contents);
    assert_in("viewBox=\"0.00 0.00 800.00 400.00\"");
    assert_in("<polygon fill=\"#cbd5e1\" stroke=\"transparent\" points=\"10,-10 400,-200 790,-10 10,-10\"/>");
    assert_in("<polygon fill=\"#3b82f6\" stroke=\"#0f172a\" points=\"100,-100 300,-100 300,-200 100,-200 100,-100\"/>");
    assert_in("points=\"600,-150 500,-150 500,-100 600,-100 600,-150\"");
    assert_in("stroke-width=\"1.5\" stroke-dasharray=\"5,2\" points=\"0,0 800,-400 \"");
    assert_in("cx=\"400\" cy=\"-200\" rx=\"5\" ry=\"5\"");
    assert_in("<text text-anchor=\"middle\" x=\"400\" y=\"-300\"");
    assert_in("<text text-anchor=\"start\" x=\"10.26\" y=\"-330\"");
    mp_canvas_free(canvas);
}

TEST(names_survive_whatever_they_hold)
{
    mp_canvas *canvas = drawn();
    written(canvas, "svg", contents);
    assert_in(">&lt;b&gt;bold &amp; &amp;lt; \\N &quot;q&quot; next \xEF\xBF\xBD</text>");
    assert_in(">plain &amp; &amp;lt; \xC3\xA9</text>");
    assert_in(
        "xlink:title=\"&lt;t&amp;amp;&quot;q&#39;\\n\\N \\\\ &#45;&#45; &#10;line 2 \xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD &amp;\"");
    assert_in("<title>a &quot;title&quot; &#45;&#45; &lt;b&gt; &amp; &amp;amp; \xC3\xA9 \xF0\x9F\x98\x80</title>");
    assert_in("<title>&lt;t&amp;amp;&quot;q&#39;\\n\\N \\\\ &#45;&#45; </title>");
    mp_canvas_free(canvas);
}

/* Each box has a unique name, for all titles. */
TEST(boxes_have_names_in_an_svg)
{
    static const char *const tooltips[] = {"conv\n1 MiB", "conv\n2 MiB", "conv (1)", "", "a&lol;b", "corner", "\n"};
    static const char *const titles[] = {"conv", "conv (1)", "conv (1) (2)", " (3)", "a&amp;lol;b", "corner", " (6)"};
    mp_canvas *canvas;
    assert_int_equal(mp_canvas_new(800, 400, &canvas, NULL), MP_OK);
    for (size_t k = 0; k < sizeof tooltips / sizeof *tooltips; k++)
        mp_canvas_box(canvas, 100.0 * (double)k, 100, 50, 50, "#3b82f6", NULL, tooltips[k]);
    written(canvas, "svg", contents);
    for (size_t k = 0; k < sizeof titles / sizeof *titles; k++) {
        char piece[64];
        snprintf(piece, sizeof piece, "<title>%s</title>", titles[k]);
        assert_in(piece);
        snprintf(piece, sizeof piece, "points=\"%zu,-150 ", 100 * k + 50);
        assert_in(piece);
    }
    mp_canvas_free(canvas);
}

TEST(the_same_calls_give_the_same_file)
{
    static const char *const endings[] = {"svg", "PNG", "pdf"};
    static const char *const starts[] = {"<?xml", "\x89PNG", "%PDF"};
    for (size_t k = 0; k < 3; k++) {
        mp_canvas *one = drawn(), *two = drawn();
        size_t size = written(one, endings[k], contents);
        sleep(k == 2); /* a PDF contains its creation time in seconds */
        assert_int_equal(written(two, endings[k], again), size);
        assert_memory_equal(contents, again, size);
        assert_memory_equal(contents, starts[k], strlen(starts[k]));
        mp_canvas_free(one);
        mp_canvas_free(two);
    }
}

/* Like a PDF reader, follows the newest trailer at the end to the information, and /Prev to the original contents. */
TEST(a_pdf_has_its_heading_as_title)
{
    mp_canvas *canvas = drawn();
    const size_t size = written(canvas, "pdf", contents);
    assert_string_equal(contents + size - 6, "%%EOF\n");
    const char *start = contents + size, *info;
    while (strncmp(start, "startxref\n", 10) != 0) start--;
    const unsigned long section = strtoul(start + 10, NULL, 10);
    char object[32];
    unsigned long number, place, before;
    assert_int_equal(sscanf(contents + section, "xref\n%lu 1\n%10lu 00000 n", &number, &place), 2);
    snprintf(object, sizeof object, "/Info %lu 0 R", number);
    assert_non_null(strstr(contents + section, object));
    info = contents + place;
    snprintf(object, sizeof object, "%lu 0 obj", number);
    assert_memory_equal(info, object, strlen(object));
    assert_non_null(strstr(info, "/Title <FEFF006100200022007400690074006C00650022"));
    assert_non_null(strstr(info, "00E90020D83DDE00>"));
    assert_int_equal(sscanf(strstr(contents + section, "/Prev "), "/Prev %lu", &before), 1);
    assert_memory_equal(contents + before, "xref\n0 ", 7);
    assert_int_equal(strtoul(contents + before + 7, NULL, 10), number); /* the new object has an unused number */
    mp_canvas_free(canvas);
}

/* A file with a cross-reference stream (as written by cairo 1.18 and later), and invalid endings. */
TEST(a_title_suits_the_file_that_it_is_put_behind)
{
    static const char stream[] = "%PDF-1.5\n7 0 obj\n<< /Type /XRef /Size 8 /W [1 2 2] /Root 6 0 R >>\nstream\n/Size "
                                 "99\nendstream\nendobj\nstartxref\n9\n%%EOF\n";
    static const char *const broken[] = {"",
                                         "%%EOF",
                                         "startxref\n5\n%%EOF",
                                         "startxref\n-1\n%%EOF",
                                         "xref trailer /Size 4\nstartxref\n0\n%%EOF",
                                         "startxref\n99999999999999999999\n%%EOF"};
    mp_text_builder out = {0};
    mp_pdf_title_put(&out, stream, sizeof stream - 1, "t");
    assert_string_equal(
        out.text,
        "\n8 0 obj\n<< /Title <FEFF0074> >>\nendobj\n9 0 obj\n<< /Type /XRef /Size 10 /Root 6 0 R /Info 8 0 R /Prev 9 "
        "/Index [8 2] /W [1 4 1]\n/Filter /ASCIIHexDecode /Length 25 >>\nstream\n010000007600010000009D00>\n"
        "endstream\nendobj\nstartxref\n157\n%%EOF\n");
    mp_free(out.text);
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        out = (mp_text_builder){0};
        mp_pdf_title_put(&out, broken[k], strlen(broken[k]), "t");
        assert_null(out.text);
    }
}

static unsigned long number_at(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (unsigned long)b[0] << 24 | (unsigned long)b[1] << 16 | (unsigned long)b[2] << 8 | b[3];
}

/* A PNG has 192 dots per inch of 72 points, twice the density of a common screen, and at most cairo's largest size. */
TEST(a_png_has_the_size_of_a_screen_or_what_can_be_drawn)
{
    mp_canvas *canvas = drawn();
    written(canvas, "PNG", contents);
    assert_int_equal(number_at(contents + 16), 2133);
    assert_int_equal(number_at(contents + 20), 1067);
    mp_canvas_free(canvas);
    assert_int_equal(mp_canvas_new(100000, 20, &canvas, NULL), MP_OK);
    written(canvas, "PNG", contents);
    assert_in_range(number_at(contents + 16), 31900, 32100);
    mp_canvas_free(canvas);
}

TEST(another_ending_is_refused)
{
    static const char *const paths[] = {"p.gif", "p", "p.svg.gz", "", "svg", "-", "p.dot"};
    mp_canvas *canvas = drawn();
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        mp_error err = {0};
        assert_int_equal(mp_canvas_check_path(paths[k], &err), MP_INVALID);
        assert_non_null(strstr(err.message, ".svg, .png or .pdf"));
        assert_int_equal(mp_canvas_write(canvas, paths[k], NULL), MP_INVALID);
    }
    assert_int_equal(mp_canvas_check_path("a.b/c.Svg", NULL), MP_OK);
    mp_canvas_free(canvas);
}

TEST(what_cannot_be_drawn_or_written_is_said)
{
    mp_error err = {0};
    mp_canvas *canvas;
    assert_int_equal(mp_canvas_new(0.0 / 0.0, 10, &canvas, NULL), MP_INVALID);
    assert_int_equal(mp_canvas_new(10, 1e9, &canvas, NULL), MP_INVALID);
    canvas = drawn();
    mp_canvas_line(canvas, (double[]){1.0 / 0.0, 0.0 / 0.0}, 1, "#000000", 1, false);
    assert_int_equal(mp_canvas_write(canvas, "/nowhere/at/all.svg", &err), MP_IO);
    assert_string_equal(err.input, "/nowhere/at/all.svg");
    mp_canvas_free(canvas);
}

TEST(every_lack_of_memory_is_reported)
{
    mp_canvas *canvas = NULL;
    long live = mp_alloc_live, k = 0;
    char path[96];
    snprintf(path, sizeof path, "%s/none.svg", folder);
    for (mp_status st = MP_NOMEM; st != MP_OK; k++) { /* drawing errors are reported when the picture is written */
        mp_canvas_free(canvas);
        canvas = NULL;
        assert_int_equal(mp_alloc_live, live);
        mp_alloc_budget = k;
        st = draw(&canvas, NULL);
        mp_alloc_budget = -1;
        assert_int_equal(st, canvas ? MP_OK : MP_NOMEM);
        if (canvas) st = mp_canvas_write(canvas, path, NULL);
        assert_true(st == MP_OK || st == MP_NOMEM);
    }
    assert_true(k > 5);
    assert_int_equal(unlink(path), 0);
    for (mp_alloc_budget = 0; mp_canvas_write(canvas, path, NULL) != MP_OK; mp_alloc_budget = ++k) {
        mp_alloc_budget = -1;
        assert_int_not_equal(access(path, F_OK), 0);
        if (k > 100) fail_msg("it never works");
    }
    mp_alloc_budget = -1;
    assert_int_equal(unlink(path), 0);
    mp_canvas_free(canvas);
    assert_int_equal(mp_alloc_live, live);
}

/* Well-formed UTF-8 by the Unicode standard (table 3-7), and characters allowed by XML 1.0. */
TEST(only_what_is_utf8_and_xml_is_let_through)
{
#define R "\xEF\xBF\xBD"
    static const char *const cases[][2] = {
        {"abc", "abc"},
        {"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80", "\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80"},
        {"\xC0\xAF", R R},       /* overlong */
        {"\xE0\x80\xAF", R R R}, /* overlong */
        {"\xE0\x9F\xBF", R R R},
        {"\xF0\x80\x80\xAF", R R R R},
        {"\xF0\x8F\xBF\xBF", R R R R},
        {"\xED\xA0\x80", R R R},       /* a surrogate */
        {"\xF4\x90\x80\x80", R R R R}, /* over U+10FFFF */
        {"\xC3", R},                   /* cut off */
        {"\xE6\xBC|", R R "|"},
        {"\xEF\xBF\xBE", R}, /* U+FFFE is forbidden in XML */
        {"a\tb\rc\nd\x1B\x7F", "a b c d" R R},
        {"\xC2\x85", R},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char to[64];
        size_t n = mp_canvas_clean(cases[k][0], false, to);
        assert_string_equal(to, cases[k][1]);
        assert_int_equal(n, strlen(cases[k][1]));
        assert_true(n <= 3 * strlen(cases[k][0]));
    }
}

/* Advances in the font files: A 1401, i 569 of 2048 units; bold A 1585. */
TEST(widths_are_those_of_the_font)
{
    assert_true(abs((int)(1000 * mp_canvas_text_width("AAi", 20.48, false)) - (1401 + 1401 + 569) * 10) < 30);
    assert_true(abs((int)(1000 * mp_canvas_text_width("A", 20.48, true)) - 15850) < 30);
    assert_true(mp_canvas_text_width("", 12, false) == 0);
}

TEST(a_shortened_text_fits_and_keeps_both_ends)
{
    static const char name[] = "/layer1/\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9/conv/Conv_output_0";
    assert_string_equal(mp_canvas_shorten(name, 10, false, 1000), name);
    for (double width = 12; width < 250; width += 1.5) {
        const char *to = mp_canvas_shorten(name, 10, false, width);
        assert_true(mp_canvas_text_width(to, 10, false) <= width);
        const char *gap = strstr(to, "\xE2\x80\xA6"), *end = gap ? gap + 3 : to;
        assert_string_equal(end, name + strlen(name) - strlen(end));
        if (gap) assert_memory_equal(to, name, (size_t)(gap - to));
        if (gap && width > 100) assert_true(gap - to >= 5 && strlen(end) >= 5);
        for (const char *at = to; *at;) assert_int_not_equal(mp_canvas_next(&at), 0xFFFD);
    }
    char large[2 * MP_CANVAS_LINE] = "/la";
    memset(large + 3, 'y', sizeof large - 9);
    memcpy(large + sizeof large - 6, "put_0", 6);
    const char *cut = mp_canvas_shorten(large, 10, false, 1e9), *gap = strstr(cut, "\xE2\x80\xA6");
    assert_true(strlen(cut) < MP_CANVAS_LINE && strlen(cut) > MP_CANVAS_LINE - 8 && gap);
    assert_true(!strncmp(cut, "/layyy", 6) && !strcmp(cut + strlen(cut) - 8, "yyyput_0"));
}

/* Eighty names that differ only in the middle, and a name in two short forms. */
TEST(different_names_are_never_shortened_to_the_same_text)
{
    enum { N = 80 };
    char shown[N][64];
    MP_OWNED_BY(mp_distinct_names_free) mp_distinct_names *names = mp_distinct_names_new();
    assert_non_null(names);
    for (int round = 0; round < 2; round++) /* asked again, a name gets the same text */
        for (int k = 0; k < N; k++) {
            const char *name = mp_text("/encoder/encoder.block.%d/attention/self/projection/MatMul_output_0", k);
            const char *text = mp_canvas_distinct(names, name, name, 10, false, 120);
            assert_true(mp_canvas_text_width(text, 10, false) <= 120);
            if (round) assert_string_equal(text, shown[k]);
            snprintf(shown[k], sizeof shown[k], "%s", text);
            for (int j = 0; j < k; j++)
                if (!strcmp(shown[j], shown[k])) fail_msg("%d and %d are both %s", j, k, text);
        }
    assert_string_equal(shown[1] + strlen(shown[1]) - 8, "output_0");
    for (int k = 1; k < N; k++) /* the mark is the number of the block */
        assert_non_null(strstr(shown[k], mp_text("\xE2\x80\xA6%d\xE2\x80\xA6", k)));
    assert_string_equal(mp_canvas_distinct(names, "/a/a.b/Relu", "a.b.Relu", 10, false, 1000), "a.b.Relu");
    assert_string_not_equal(mp_canvas_distinct(names, "a.b.Relu", "a.b.Relu", 10, false, 1000), "a.b.Relu");
    assert_string_equal(mp_canvas_distinct(NULL, "a.b.Relu", "a.b.Relu", 10, false, 1000), "a.b.Relu");
}

TEST(short_names_say_the_module_once)
{
    char long_name[2 * MP_TEXT_MAX] = "/m/";
    assert_string_equal(mp_short_name("gradient of /down.2/down.2.3/Relu_output_0"), "gradient of down.2.3.Relu");
    assert_string_equal(mp_short_name("/avgpool/Pool: backward of data"), "avgpool.Pool: backward of data");
    assert_string_equal(mp_short_name("a  b"), "a  b");
    assert_string_equal(mp_short_name("_output_0"), "_output_0"); /* shortening would leave an empty name */
    assert_string_equal(mp_short_name(""), "");
    memset(long_name + 3, 'x', sizeof long_name - 4);
    assert_int_equal(strlen(mp_short_name(long_name)), MP_TEXT_MAX - 1);
}

TEST(a_text_stays_until_so_many_more_are_made)
{
    const char *first = mp_text("%s, %d", "first", 1);
    for (int k = 1; k < MP_TEXTS; k++) mp_bytes_text(k);
    assert_string_equal(first, "first, 1");
    assert_string_equal(mp_text("%.*s%s", 3, "wholes", mp_bytes_text(7LL << 30)), "who7.00 GiB");
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
