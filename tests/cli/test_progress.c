/* test_progress.c - cli/reports/progress: a signal ends a search that does not heed it, unless there is a plan to lose; and
 * what is left of a time limit. */
#include <signal.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/reports/progress.h"
#include "estimator/base/clock.h"
#include "tests/cases/test.h"

static const options asked = {.command = CMD_PLAN, .talk.quiet = true};

/* Whether the process would be ended by and by; then it is not. */
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
    progress_start(&p, &asked, 1, 2);
    assert_true(progress_show(&(mp_progress){.best_ticks = 7}, &p));
    assert_true(progress_next(&p, "2 of 2"));
    assert_true(progress_show(&(mp_progress){.best_ticks = -1}, &p));
    raise(SIGTERM);
    assert_false(is_forced());
    progress_end(&p);
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
