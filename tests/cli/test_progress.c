/* test_progress.c - cli/reports/progress: a signal ends a search that ignores it, unless this would lose a plan; also the
 * remaining part of a time limit. */
#include <signal.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/options/options.h"
#include "cli/reports/progress.h"
#include "estimator/base/clock.h"
#include "tests/cases/test.h"

static const options asked = {.command = CMD_PLAN, .talk.quiet = true};

/* Returns whether the process would be ended by an alarm, and cancels it. */
static bool is_forced(void)
{
    return alarm(0) > 0;
}

TEST(without_a_plan_a_signal_that_is_not_heeded_ends_the_process)
{
    progress p;
    progress_start(&p, &asked, 1, 2);
    assert_true(progress_show(&(mp_progress){.best_ticks = -1}, &p));
    raise(SIGTERM);
    assert_true(is_forced());
    progress_end(&p);
    assert_int_equal(interrupt_status(), 143);
}

TEST(a_search_that_heeds_it_may_take_its_time)
{
    progress p;
    progress_start(&p, &asked, 1, 2);
    raise(SIGTERM);
    assert_false(progress_show(&(mp_progress){.best_ticks = -1}, &p));
    assert_false(is_forced());
    progress_end(&p);
    progress_start(&p, &asked, 1, 2);
    raise(SIGTERM);
    assert_false(progress_next(&p, "1 of 2"));
    assert_false(is_forced());
    progress_end(&p);
}

TEST(a_plan_is_not_lost)
{
    progress p;
    interrupt_forget(); /* a requested stop holds for all searches of a command */
    progress_start(&p, &asked, 1, 2);
    assert_true(progress_show(&(mp_progress){.best_ticks = 7}, &p));
    assert_true(progress_next(&p, "2 of 2"));
    assert_true(progress_show(&(mp_progress){.best_ticks = -1}, &p));
    raise(SIGTERM);
    assert_false(is_forced());
    progress_end(&p);
}

/* Calls progress 100 times for a search that began `seconds` ago, and returns the text written to standard error. */
static const char *written(const options *o, double seconds, const char *next)
{
    static char text[1024];
    FILE *to = tmpfile();
    const int kept = dup(STDERR_FILENO);
    progress p;
    assert_non_null(to);
    dup2(fileno(to), STDERR_FILENO);
    progress_start(&p, o, 1, 2);
    p.start -= seconds;
    assert_true(progress_next(&p, next));
    for (int k = 0; k < 100; k++) assert_true(progress_show(&(mp_progress){.best_ticks = 106, .baseline_ticks = 100}, &p));
    progress_end(&p);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = 0;
    fclose(to);
    return text;
}

TEST(where_no_terminal_is_a_line_is_added_now_and_then)
{
    options talks = {.command = CMD_FIT, .talk.shows_progress = true}, silent = {.command = CMD_FIT}, quiet = talks;
    quiet.talk.quiet = true;
    interrupt_forget();
    assert_string_equal(written(&talks, 0, "batch 3"), "");
    assert_string_equal(written(&talks, 15, "batch 3"), "memplan: progress: batch 3  15 s\n");
    assert_string_equal(written(&silent, 1e4, "batch 3"), "");
    assert_string_equal(written(&quiet, 1e4, "batch 3"), "");
    log_times times = log_times_start(&talks);
    double seen[12] = {0};
    int n = 0;
    for (double t = 0; t < 3000; t += 0.5)
        if (log_is_due(&times, t)) seen[n++] = t;
    static const double expected[] = {10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440};
    assert_int_equal(n, sizeof expected / sizeof *expected);
    for (int k = 0; k < n; k++) assert_true(seen[k] == expected[k]);
}

TEST(a_time_limit_is_of_the_whole_command)
{
    search_options o = {.begun = mp_clock_now() - 5, .time_limit = 10};
    assert_true(progress_time_left(&o) <= 5);
    o.time_limit = 2;
    assert_true(progress_time_left(&o) == 0.1 * 2);
    o.time_limit = 0;
    assert_true(progress_time_left(&o) == 0);
}
