/* test_visible_text.c - terminal control characters are printed as escapes, and all other text is unchanged. */
#include "estimator/base/visible_text.h"

#include "memplan/error.h"
#include "tests/cases/test.h"

static void assert_shown(const char *text, const char *expected)
{
    char shown[256];
    assert_string_equal(mp_visible_text(text, shown, sizeof shown), expected);
}

TEST(steering_becomes_visible)
{
    assert_shown("plain /a.b:0 \xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82 \\",
                 "plain /a.b:0 \xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82 \\");
    assert_shown("\033[2K\r\n\t\007\177", "\\x1b[2K\\x0d\\x0a\\x09\\x07\\x7f");
    assert_shown("\xC2\x9B"
                 "5m",
                 "\\u009b5m");
    assert_shown("\xE2\x80\x8E\xE2\x80\x8F\xE2\x80\xAA\xE2\x80\xAE\xE2\x81\xA6\xE2\x81\xA9",
                 "\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069");
    assert_shown("\xFF\xC0\x80\xED\xA0\x80z",
                 "\\xff\\xc0\\x80\\xed\\xa0\\x80z"); /* an invalid byte, an overlong sequence, a surrogate */
    assert_shown("\xE2\x80", "\\xe2\\x80");
}

TEST(what_does_not_fit_is_cut_between_characters)
{
    char shown[6];
    assert_string_equal(mp_visible_text("ab\033", shown, sizeof shown), "ab");
    assert_string_equal(mp_visible_text("abc\xC3\xA9\xC3\xA9", shown, sizeof shown), "abc\xC3\xA9");
    assert_string_equal(mp_visible_text("a", shown, 1), "");
}

TEST(an_error_shows_names_so)
{
    mp_error err = {0};
    assert_int_equal(MP_FAIL(&err, MP_PARSE, "'%s'", "a\nb\033"), MP_PARSE);
    assert_string_equal(err.message, "'a\\x0ab\\x1b'");
}
